use std::collections::HashSet;

use super::*;
use crate::{
    layers::Rules,
    presets,
    value::{JsonLimits, from_json},
};

#[test]
fn a_large_pod_that_a_step_hardly_changes_is_checked_without_looking_at_all_of_it_twice() {
    let env: Vec<String> = (0..1500).map(|at| format!(r#"{{"name":"E{at}","value":"v"}}"#)).collect();
    let text = format!(r#"{{"containers":[{{"name":"a","image":"i","env":[{}]}}]}}"#, env.join(","));
    let before = from_json(&text, JsonLimits::DEFAULT).unwrap();
    let changed = text.replace(r#""E7","value":"v""#, r#""E7","value":"w""#);
    let after = from_json(&changed, JsonLimits::DEFAULT).unwrap();
    let found = changes(Some(&before), Some(&after));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].path.to_string(), "spec.containers[name=a].env[name=E7].value");
    let rules = Rules::built_in();
    let given = HashSet::new();
    let scene = Scene { rules: &rules, preset: presets::named("job").unwrap(), given: &given };
    assert_eq!(check(Some(&before), Some(&after), scene), []);
}
