//! Fields that the API server derived from others before podlayer was asked, and that a layer's change made wrong.
//!
//! Built-in admission plugins run before webhooks and once more after them, and the second time refuse what no longer
//! fits: a priority that isn't the class's, an overhead that isn't the RuntimeClass's. Taken out, they are derived again.
//! Only what stands as the plugins left it is touched: what a layer wrote is its own affair.

use crate::value::{Map, Value};

/// What names the volumes that the ServiceAccount plugin adds, before a random ending.
const TOKEN_VOLUME: &str = "kube-api-access-";

/// Takes out of a pod with its layers what the API server must derive anew. `original` is the pod as it was sent.
///
/// A pod that comes out of this, decided again, is left as it is: nothing differs from what was sent.
pub(super) fn comutate(original: &Value<'_>, pod: &mut Value<'_>) {
    let (Some(before), Some(after)) = (spec(original), spec(pod)) else { return };
    // Priority refuses another number, and another policy, than the class's.
    let mut stale = Vec::new();
    if differs(before, after, "priorityClassName") {
        stale.extend(["priority", "preemptionPolicy"]);
    }
    // RuntimeClass refuses another overhead than the class's, and any without a class.
    if differs(before, after, "runtimeClassName") {
        stale.push("overhead");
    }
    stale.retain(|key| after.contains_key(key) && !differs(before, after, key));
    // ServiceAccount adds volume and mounts by what the pod said then, and never takes them away.
    let off = Some(&Value::Bool(false));
    let token_off =
        after.get("automountServiceAccountToken") == off && before.get("automountServiceAccountToken") != off;
    let tokens = if token_off { token_volumes(before) } else { Vec::new() };
    if stale.is_empty() && tokens.is_empty() {
        return;
    }
    let Some(after) = pod.as_object_mut().and_then(|pod| pod.get_mut("spec")).and_then(Value::as_object_mut) else {
        return;
    };
    for key in stale {
        after.remove(key);
    }
    if tokens.is_empty() {
        return;
    }
    drop_named(after, "volumes", &tokens);
    for list in ["containers", "initContainers"] {
        for container in after.get_mut(list).and_then(Value::as_list_mut).into_iter().flatten() {
            if let Some(container) = container.as_object_mut() {
                drop_named(container, "volumeMounts", &tokens);
            }
        }
    }
}

fn spec<'v, 'a>(pod: &'v Value<'a>) -> Option<&'v Map<'a>> {
    pod.get("spec").and_then(Value::as_object)
}

/// Whether a field is another one; null is none.
fn differs(before: &Map<'_>, after: &Map<'_>, key: &str) -> bool {
    before.get(key).filter(|value| !value.is_null()) != after.get(key).filter(|value| !value.is_null())
}

/// The names of the volumes that hold the token as the plugin mounts it.
fn token_volumes(spec: &Map<'_>) -> Vec<String> {
    let volumes = spec.get("volumes").and_then(Value::as_list).unwrap_or_default();
    let projected = |volume: &&Value<'_>| {
        let sources = volume.get("projected").and_then(|projected| projected.get("sources")).and_then(Value::as_list);
        sources.unwrap_or_default().iter().any(|source| source.get("serviceAccountToken").is_some())
    };
    let names = volumes.iter().filter(projected).filter_map(|volume| volume.get("name")?.as_str());
    names.filter(|name| name.starts_with(TOKEN_VOLUME)).map(str::to_owned).collect()
}

/// Takes items out of a list by name, and the list if nothing is left of it.
fn drop_named(map: &mut Map<'_>, list: &str, names: &[String]) {
    let is_one = |item: &Value<'_>| {
        item.get("name").and_then(Value::as_str).is_some_and(|name| names.iter().any(|known| known == name))
    };
    // Looked for first: what isn't changed stays shared with the pod as it was sent.
    if !map.get(list).and_then(Value::as_list).is_some_and(|items| items.iter().any(is_one)) {
        return;
    }
    let Some(items) = map.get_mut(list).and_then(Value::as_list_mut) else { return };
    items.retain(|item| !is_one(item));
    if items.is_empty() {
        map.remove(list);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{JsonLimits, from_json, to_json};

    fn result(before: &str, after: &str) -> String {
        let parse = |text: &str| format!(r#"{{"spec":{text}}}"#);
        let (before, after) = (parse(before), parse(after));
        let original = from_json(&before, JsonLimits::DEFAULT).unwrap();
        let mut pod = from_json(&after, JsonLimits::DEFAULT).unwrap();
        comutate(&original, &mut pod);
        let once = pod.clone();
        let sent = once.clone();
        comutate(&sent, &mut pod);
        assert_eq!(pod, once, "decided again it stays");
        to_json(pod.get("spec").unwrap())
    }

    #[test]
    fn what_was_derived_from_a_changed_class_goes() {
        let filled = r#"{"priority":0,"preemptionPolicy":"PreemptLowerPriority"}"#;
        let classed = r#"{"priority":0,"preemptionPolicy":"PreemptLowerPriority","priorityClassName":"ci"}"#;
        assert_eq!(result(filled, classed), r#"{"priorityClassName":"ci"}"#);
        assert_eq!(result(classed, filled), "{}");
        assert_eq!(result(classed, classed), classed, "nothing changed");
        let own = r#"{"priority":7,"priorityClassName":"ci"}"#;
        assert_eq!(result(filled, own), own, "a layer's own number stays for the API server to judge");
        let runtime = r#"{"runtimeClassName":"kata","overhead":{"cpu":"1"}}"#;
        assert_eq!(result(runtime, r#"{"overhead":{"cpu":"1"}}"#), "{}");
        assert_eq!(
            result(runtime, r#"{"runtimeClassName":null,"overhead":{"cpu":"1"}}"#),
            r#"{"runtimeClassName":null}"#
        );
    }

    #[test]
    fn the_token_goes_with_its_mounts_where_a_layer_turned_it_off() {
        let token =
            r#"{"name":"kube-api-access-x7k2p","projected":{"sources":[{"serviceAccountToken":{"path":"token"}}]}}"#;
        let like = r#"{"name":"kube-api-access-mine","emptyDir":{}}"#;
        let mounts = |more: &str| format!(r#"[{{"name":"kube-api-access-x7k2p","mountPath":"/t"}}{more}]"#);
        let pod = |off: &str| {
            format!(
                r#"{{{off}"volumes":[{token},{like}],"containers":[{{"name":"a","volumeMounts":{}}},{{"name":"b","volumeMounts":{}}}],"initContainers":[{{"name":"c","volumeMounts":{}}}]}}"#,
                mounts(""),
                mounts(r#",{"name":"work","mountPath":"/w"}"#),
                mounts("")
            )
        };
        let off = r#""automountServiceAccountToken":false,"#;
        let expected = format!(
            r#"{{{off}"volumes":[{like}],"containers":[{{"name":"a"}},{{"name":"b","volumeMounts":[{{"name":"work","mountPath":"/w"}}]}}],"initContainers":[{{"name":"c"}}]}}"#
        );
        assert_eq!(result(&pod(""), &pod(off)), expected);
        assert_eq!(result(&pod(off), &pod(off)), pod(off), "the author had it so");
    }
}
