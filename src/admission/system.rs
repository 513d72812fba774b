//! What is the CI system's own in a pod: containers that its controller finds by name, the commands that start its
//! agent. No layer may change it, whoever wrote the layer; which it is stands in the presets.

use std::{borrow::Cow, collections::HashMap};

use crate::{
    layers::Cause,
    presets::{ContainerList, Preset, Protected},
    value::{Path, Segment, Value, glob_matches},
};

/// What a pod had of its CI system before any layer.
pub(super) struct System<'a> {
    protected: &'static Protected,
    spec: Vec<Option<&'a Value<'a>>>,
    containers: Vec<Own<'a>>,
    /// Where each stands there, by its list and name.
    places: [HashMap<&'a str, usize>; 2],
}

/// A container of the CI system.
struct Own<'a> {
    list: ContainerList,
    name: &'a str,
    /// In the order of [`Protected::fields`].
    fields: Vec<Option<&'a Value<'a>>>,
    env: Vec<&'a Value<'a>>,
}

impl<'a> System<'a> {
    /// What the preset says of this pod; nothing for a preset that protects nothing.
    pub(super) fn of(preset: &'static Preset, original: &'a Value<'_>) -> Option<Self> {
        let protected = &preset.protected;
        let spec = original.get("spec");
        if protected.is_empty() {
            return None;
        }
        let containers: Vec<Own<'a>> = found(protected, spec)
            .map(|(list, name, container)| Own {
                list,
                name,
                fields: protected.fields.iter().map(|field| container.get(field)).collect(),
                env: variables(protected, container).collect(),
            })
            .collect();
        let mut places = [HashMap::new(), HashMap::new()];
        for (at, own) in containers.iter().enumerate() {
            places[own.list as usize].insert(own.name, at);
        }
        let spec = protected.spec.iter().map(|field| spec.and_then(|spec| spec.get(field))).collect();
        Some(Self { protected, spec, containers, places })
    }

    /// Compares with the pod after a layer.
    ///
    /// # Errors
    /// [`Cause::Protected`] for the first thing that may not change.
    pub(super) fn check(&self, pod: &Value<'_>) -> Result<(), Cause> {
        let why = self.protected.why.as_str();
        let fault = |steps: Vec<Segment>| {
            let mut path = Path::field("spec");
            steps.into_iter().for_each(|step| path.push(step));
            Err(Cause::Protected { path, why })
        };
        let field = |name: &str| Segment::Field(name.to_owned());
        let container = |list: ContainerList, name: &str| {
            vec![field(list.as_str()), Segment::Item { key: "name".into(), value: name.to_owned() }]
        };
        let spec = pod.get("spec");
        for (name, before) in self.protected.spec.iter().zip(&self.spec) {
            if spec.and_then(|spec| spec.get(name)) != *before {
                return fault(vec![field(name)]);
            }
        }
        let mut seen = vec![false; self.containers.len()];
        for (list, name, now) in found(self.protected, spec) {
            let Some(at) = self.places[list as usize].get(name).copied() else {
                return fault(container(list, name));
            };
            seen[at] = true;
            let own = &self.containers[at];
            let inside = |key: &str| container(list, name).into_iter().chain([field(key)]).collect();
            let fields = self.protected.fields.iter().zip(&own.fields);
            if let Some((changed, _)) = fields.into_iter().find(|(key, before)| now.get(key) != **before) {
                return fault(inside(changed));
            }
            if !variables(self.protected, now).eq(own.env.iter().copied()) {
                return fault(inside("env"));
            }
        }
        match self.containers.iter().zip(seen).find(|(_, seen)| !seen) {
            Some((own, _)) => fault(container(own.list, own.name)),
            None => Ok(()),
        }
    }
}

/// The protected containers of a pod.
fn found<'v, 'a>(
    protected: &'static Protected,
    spec: Option<&'v Value<'a>>,
) -> impl Iterator<Item = (ContainerList, &'v str, &'v Value<'a>)> {
    let of_list = move |list: ContainerList| {
        let fits = move |container: &&Value<'_>| protected.containers.fit(list, container);
        let containers = list.of(spec).iter().filter(fits);
        containers.filter_map(move |container| Some((list, container.get("name")?.as_str()?, container)))
    };
    ContainerList::ALL.into_iter().flat_map(of_list)
}

/// The protected variables of a container, in their order.
fn variables<'v, 'a>(protected: &'static Protected, container: &'v Value<'a>) -> impl Iterator<Item = &'v Value<'a>> {
    let all = match protected.env.is_empty() {
        true => &[],
        false => container.get("env").and_then(Value::as_list).unwrap_or_default(),
    };
    all.iter().filter(|item| {
        let name = item.get("name").and_then(Value::scalar_text).unwrap_or(Cow::Borrowed(""));
        protected.env.iter().any(|glob| glob_matches(glob, &name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        presets,
        value::{JsonLimits, from_json},
    };

    const POD: &str = r#"{"spec": {"restartPolicy": "Never", "containers": [
        {"name": "build", "command": ["tini"], "args": ["--"], "env": [{"name": "BUILDKITE_COMMAND", "value": "make"}]},
        {"name": "agent", "args": ["start"]}], "initContainers": [{"name": "copy-agent", "command": ["sh"]}]}}"#;

    fn checked(preset: &str, from: &str, replace: &str, with: &str) -> Result<(), String> {
        let before = from_json(from, JsonLimits::DEFAULT).unwrap();
        assert!(replace.is_empty() || from.contains(replace), "{replace}");
        let text = from.replacen(replace, with, 1);
        let after = from_json(&text, JsonLimits::DEFAULT).unwrap();
        let system = System::of(presets::named(preset).unwrap(), &before).unwrap();
        system.check(&after).map_err(|cause| cause.to_string().split(" can't").next().unwrap().to_owned())
    }

    #[test]
    fn names_and_commands_of_the_ci_system_stay_and_the_rest_is_free() {
        for (replace, with, wanted) in [
            ("", "", None),
            ("\"value\": \"make\"", "\"value\": \"other\"", None),
            ("\"start\"]", "\"start\"], \"image\": \"x\", \"env\": [{\"name\": \"A\"}]", None),
            ("{\"name\": \"agent\"", "{\"name\": \"dind\", \"command\": [\"d\"]}, {\"name\": \"agent\"", None),
            ("\"tini\"", "\"sh\"", Some("spec.containers[name=build].command")),
            (", \"args\": [\"--\"]", "", Some("spec.containers[name=build].args")),
            ("\"args\": [\"start\"]", "\"args\": []", Some("spec.containers[name=agent].args")),
            ("\"agent\"", "\"agent-2\"", Some("spec.containers[name=agent]")),
            ("\"copy-agent\"", "\"imagecheck-9\"", Some("spec.initContainers[name=imagecheck-9]")),
            ("BUILDKITE_COMMAND", "X", Some("spec.containers[name=build]")),
            ("Never", "OnFailure", Some("spec.restartPolicy")),
        ] {
            let found = checked("buildkite", POD, replace, with).err();
            assert_eq!(found.as_deref(), wanted, "{replace} {with}");
        }
        let argo = r#"{"spec": {"containers": [{"name": "main", "env": [{"name": "ARGO_TEMPLATE", "value": "t"}, {"name": "B", "value": "b"}]}]}}"#;
        assert_eq!(checked("argo", argo, "\"b\"", "\"c\""), Ok(()));
        assert_eq!(checked("argo", argo, "\"t\"", "\"u\""), Err("spec.containers[name=main].env".into()));
        assert!(System::of(presets::named("job").unwrap(), &Value::Null).is_none());
    }
}
