//! `unionLists`: lists that a merge replaces as a whole, and a layer may have added to instead.

use std::{collections::HashMap, fmt};

use crate::{
    presets::ContainerList,
    schema::is_written_anew,
    value::{Path, Segment, Value, glob_matches, to_json},
};

/// A list that a layer's items are added to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UnionList {
    /// Of which containers; nothing for a list of the pod itself.
    containers: Option<(ContainerList, String)>,
    field: UnionField,
}

/// Which list it is; each has its own way to tell which items are the same.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum UnionField {
    /// By value.
    CapabilitiesAdd,
    /// By value.
    CapabilitiesDrop,
    /// By prefix and source.
    EnvFrom,
    /// By condition.
    ReadinessGates,
    /// By key, operator, value and effect.
    Tolerations,
}

/// What can be written.
const KNOWN: &str = "tolerations, readinessGates, containers[*].envFrom, containers[*].securityContext.capabilities.add or \
                     containers[*].securityContext.capabilities.drop, the last three also below initContainers, with a name \
                     or a glob for the *";

impl UnionList {
    /// Reads a path: `tolerations`, `containers[*].envFrom`, `initContainers[a-*].securityContext.capabilities.add`. A path
    /// from the pod (`spec.containers[name=a].envFrom`) is read as well.
    ///
    /// # Errors
    /// What can be written instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        let refused = || format!("{text:?} is no list that can be united, write {KNOWN}");
        let path = text.strip_prefix("spec.").unwrap_or(text);
        match path {
            "tolerations" => return Ok(Self { containers: None, field: UnionField::Tolerations }),
            "readinessGates" => return Ok(Self { containers: None, field: UnionField::ReadinessGates }),
            _ => {}
        }
        let (list, rest) = path.split_once('[').ok_or_else(refused)?;
        let (name, field) = rest.split_once("].").ok_or_else(refused)?;
        let name = name.strip_prefix("name=").unwrap_or(name);
        let list = ContainerList::ALL.into_iter().find(|known| known.as_str() == list).ok_or_else(refused)?;
        let field = match field {
            "envFrom" => UnionField::EnvFrom,
            "securityContext.capabilities.add" => UnionField::CapabilitiesAdd,
            "securityContext.capabilities.drop" => UnionField::CapabilitiesDrop,
            _ => return Err(refused()),
        };
        if name.is_empty() || name.starts_with('@') {
            return Err(refused());
        }
        Ok(Self { containers: Some((list, name.to_owned())), field })
    }

    /// Whether it is the list at a path of the spec.
    pub fn covers(&self, path: &Path) -> bool {
        let fields = match (&self.containers, path.segments()) {
            (None, fields) => fields,
            (Some((list, glob)), [Segment::Field(field), Segment::Item { value: name, .. }, fields @ ..]) => {
                if field != list.as_str() || !glob_matches(glob, name) {
                    return false;
                }
                fields
            }
            _ => return false,
        };
        let wanted = self.field.steps();
        fields.len() == wanted.len()
            && fields.iter().zip(wanted).all(|(field, wanted)| matches!(field, Segment::Field(name) if name == wanted))
    }
}

impl fmt::Display for UnionList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((list, name)) = &self.containers {
            write!(f, "{}[{name}].", list.as_str())?;
        }
        f.write_str(&self.field.steps().join("."))
    }
}

impl UnionField {
    /// The way to it, from the container or the spec.
    fn steps(self) -> &'static [&'static str] {
        match self {
            Self::CapabilitiesAdd => &["securityContext", "capabilities", "add"],
            Self::CapabilitiesDrop => &["securityContext", "capabilities", "drop"],
            Self::EnvFrom => &["envFrom"],
            Self::ReadinessGates => &["readinessGates"],
            Self::Tolerations => &["tolerations"],
        }
    }

    /// What tells the items of this list apart.
    fn key(self, item: &Value<'_>) -> String {
        let text = |keys: &[&str]| {
            let found = keys.iter().try_fold(item, |value, key| value.get(key));
            found.and_then(Value::scalar_text).unwrap_or_default().into_owned()
        };
        match self {
            Self::CapabilitiesAdd | Self::CapabilitiesDrop => to_json(item),
            Self::EnvFrom => {
                [text(&["prefix"]), text(&["configMapRef", "name"]), text(&["secretRef", "name"])].join("\n")
            }
            Self::ReadinessGates => text(&["conditionType"]),
            Self::Tolerations => {
                let operator = match text(&["operator"]) {
                    // What the API server takes an absent one for.
                    none if none.is_empty() => "Equal".to_owned(),
                    operator => operator,
                };
                [text(&["key"]), operator, text(&["value"]), text(&["effect"])].join("\n")
            }
        }
    }
}

/// Puts the pod's items into those lists of a patch that are to be united: first the pod's in their order, then the
/// patch's new ones. An item that both have is the patch's, in the pod's place; the pod's where `keep` says so.
pub fn widen<'a>(patch: &mut Value<'a>, spec: Option<&Value<'a>>, lists: &[UnionList], keep: bool) {
    let Some(spec) = spec else { return };
    for list in lists {
        let Some((containers, glob)) = &list.containers else {
            unite(patch, spec, list.field, keep);
            continue;
        };
        let Some(items) = patch.as_object_mut().and_then(|map| map.get_mut(containers.as_str())) else { continue };
        let Some(items) = items.as_list_mut() else { continue };
        if is_written_anew(items) {
            continue;
        }
        let name = |item: &Value<'a>| item.get("name").and_then(Value::as_str).map(str::to_owned);
        let own: HashMap<String, &Value<'a>> =
            containers.of(Some(spec)).iter().filter_map(|item| Some((name(item)?, item))).collect();
        for item in items {
            let container = name(item).filter(|name| glob_matches(glob, name)).and_then(|name| own.get(&name));
            if let Some(container) = container {
                unite(item, container, list.field, keep);
            }
        }
    }
}

fn unite<'a>(patch: &mut Value<'a>, own: &Value<'a>, field: UnionField, keep: bool) {
    let steps = field.steps();
    let own = steps.iter().try_fold(own, |value, step| value.get(step)).and_then(Value::as_list);
    let new = steps.iter().try_fold(patch, |value, step| value.as_object_mut()?.get_mut(step));
    let (Some(own), Some(new)) = (own, new.and_then(Value::as_list_mut)) else { return };
    let mut united = own.to_vec();
    let mut places: HashMap<String, usize> = HashMap::with_capacity(own.len() + new.len());
    for (at, item) in own.iter().enumerate() {
        places.entry(field.key(item)).or_insert(at);
    }
    for item in std::mem::take(new) {
        match places.get(&field.key(&item)) {
            Some(at) if keep && *at < own.len() => {}
            Some(at) => united[*at] = item,
            None => {
                places.insert(field.key(&item), united.len());
                united.push(item);
            }
        }
    }
    *new = united;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{JsonLimits, from_json};

    fn united(list: &str, own: &str, patch: &str, keep: bool) -> String {
        let parse = |text| from_json(text, JsonLimits::DEFAULT).unwrap().into_owned();
        let (own, mut patch) = (parse(own), parse(patch));
        let lists = [UnionList::parse(list).unwrap()];
        widen(&mut patch, Some(&own), &lists, keep);
        let once = patch.clone();
        // What the pod then is, patched again.
        widen(&mut patch, Some(&once), &lists, keep);
        assert_eq!(patch, once, "once is enough");
        to_json(&patch)
    }

    #[test]
    fn new_items_come_last_and_the_same_ones_are_told_by_their_key() {
        let own = r#"{"tolerations":[{"key":"a","effect":"NoExecute","tolerationSeconds":300},{"key":"b"}]}"#;
        let patch = r#"{"tolerations":[{"key":"c"},{"key":"a","operator":"Equal","effect":"NoExecute"},{"key":"b","effect":"NoSchedule"}]}"#;
        assert_eq!(
            united("tolerations", own, patch, false),
            r#"{"tolerations":[{"key":"a","operator":"Equal","effect":"NoExecute"},{"key":"b"},{"key":"c"},{"key":"b","effect":"NoSchedule"}]}"#
        );
        assert_eq!(
            united("spec.tolerations", own, patch, true),
            r#"{"tolerations":[{"key":"a","effect":"NoExecute","tolerationSeconds":300},{"key":"b"},{"key":"c"},{"key":"b","effect":"NoSchedule"}]}"#
        );
        assert_eq!(united("tolerations", own, r#"{"tolerations":null}"#, false), r#"{"tolerations":null}"#);
        let gates = r#"{"readinessGates":[{"conditionType":"b"},{"conditionType":"a"}]}"#;
        assert_eq!(
            united("readinessGates", r#"{"readinessGates":[{"conditionType":"a"}]}"#, gates, false),
            r#"{"readinessGates":[{"conditionType":"a"},{"conditionType":"b"}]}"#
        );
    }

    #[test]
    fn lists_of_containers_are_united_where_the_path_says() {
        let own = r#"{"containers":[{"name":"a","envFrom":[{"secretRef":{"name":"s"}}]},{"name":"b","envFrom":[{"secretRef":{"name":"s"}}]}]}"#;
        let patch = r#"{"containers":[{"name":"b","envFrom":[{"secretRef":{"name":"t"}}]},{"name":"a","envFrom":[{"prefix":"P","secretRef":{"name":"s"}},{"configMapRef":{"name":"s"}}]}]}"#;
        assert_eq!(
            united("containers[a].envFrom", own, patch, false),
            r#"{"containers":[{"name":"b","envFrom":[{"secretRef":{"name":"t"}}]},{"name":"a","envFrom":[{"secretRef":{"name":"s"}},{"prefix":"P","secretRef":{"name":"s"}},{"configMapRef":{"name":"s"}}]}]}"#
        );
        let capabilities = |add: &str| {
            format!(r#"{{"initContainers":[{{"name":"a","securityContext":{{"capabilities":{{"add":[{add}]}}}}}}]}}"#)
        };
        let list = "initContainers[*].securityContext.capabilities.add";
        let (own, patch) = (capabilities(r#""A","B""#), capabilities(r#""C","B""#));
        assert_eq!(united(list, &own, &patch, false), capabilities(r#""A","B","C""#));
        assert_eq!(UnionList::parse(list).unwrap().to_string(), list);
    }

    #[test]
    fn only_lists_that_a_merge_replaces_can_be_united() {
        for text in ["env", "containers[*].env", "containers.envFrom", "containers[@command].envFrom", "volumes", ""] {
            let error = UnionList::parse(text).unwrap_err();
            assert!(
                error.starts_with(&format!("{text:?} is no list that can be united, write tolerations,")),
                "{error}"
            );
        }
        let list = UnionList::parse("containers[a-*].envFrom").unwrap();
        let covers = |path: &str| list.covers(&Path::parse(path).unwrap());
        assert!(covers("containers[name=a-1].envFrom"));
        assert!(!covers("containers[name=b].envFrom") && !covers("initContainers[name=a-1].envFrom"));
        assert!(!covers("containers[name=a-1].envFrom[0]"));
    }
}
