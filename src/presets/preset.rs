use std::collections::BTreeMap;

use serde::Deserialize;

use super::{ContainerList, Members, Role};
use crate::value::Value;

/// One CI system.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// Its name in flags: `arc-runner`.
    pub name: String,
    /// Its name for people.
    pub title: String,
    /// Labels of its pods: all of one of these. Nothing as a value means any value.
    pub selectors: Vec<BTreeMap<String, Option<String>>>,
    /// Labels that none of its pods has.
    #[serde(default)]
    pub without: Vec<String>,
    /// Where the selectors come from, and why they can be relied on.
    pub source: String,
    /// Which containers play which role.
    pub roles: BTreeMap<Role, Members>,
    /// Where its pods name a class besides podlayer's own annotation.
    #[serde(default)]
    pub class: Option<ClassSource>,
    /// What its authors can't forge.
    pub unforgeable: Unforgeable,
    /// Labels and annotations that no layer may set.
    pub reserved: Reserved,
    /// What no layer may change.
    #[serde(default)]
    pub protected: Protected,
    /// How a refused pod is answered.
    pub denial: Denial,
    /// How a step patch gets onto the pod.
    pub step: String,
    /// Where else an author can write the pod's spec, and what confines them.
    pub elsewhere: String,
    /// What goes wrong with layers for it.
    pub traps: Vec<Trap>,
}

/// Where a class is named. One that isn't known there is no mistake: the key is the CI system's own.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassSource {
    /// The label whose value is the class.
    pub label: String,
    /// Why this one.
    pub why: String,
}

/// Keys that authors of jobs can't set or change.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Unforgeable {
    /// Labels.
    pub labels: Vec<String>,
    /// Annotations.
    pub annotations: Vec<String>,
    /// What isn't among them.
    pub but: String,
}

/// Keys that the CI system finds or steers its pods by.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reserved {
    /// What they start with.
    pub prefixes: Vec<String>,
    /// Domains, with all below them, that stand before the slash.
    pub domains: Vec<String>,
    /// Whole keys.
    pub keys: Vec<String>,
}

/// What of a pod no layer may change, because the CI system would lose the job.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Protected {
    /// Whose it is, to be read after "can't be changed by a layer: ".
    pub why: String,
    /// These containers may neither go nor come…
    pub containers: Members,
    /// …and these fields of them stay as they are…
    pub fields: Vec<String>,
    /// …and these variables (globs).
    pub env: Vec<String>,
    /// Fields of the spec that stay.
    pub spec: Vec<String>,
}

/// How the refusal of a pod must look for its CI system to do the best with it. Jobs are always refused with 422.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Denial {
    /// HTTP code.
    pub code: u16,
    /// Kubernetes' reason; a reason that says otherwise than the code counts more than it.
    #[serde(default = "invalid")]
    pub reason: String,
    /// Why.
    pub why: String,
}

/// Something that goes wrong with layers for this system. At most one of the conditions is given; a trap without one is
/// for people only.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trap {
    /// Its name in findings.
    pub name: String,
    /// What goes wrong and what to do.
    pub text: String,
    /// A patch adds an init container without naming this one before it.
    #[serde(default)]
    pub init_container: Option<After>,
    /// A patch adds a container.
    #[serde(default)]
    pub container: Option<Except>,
    /// A patch sets such a variable elsewhere than it should.
    #[serde(default)]
    pub env: Option<Variable>,
    /// A patch names a container that fits this glob exactly.
    #[serde(default)]
    pub exact: Option<String>,
    /// A patch sets the image of a container that fits this glob.
    #[serde(default)]
    pub image: Option<String>,
    /// A patch sets one of these fields of the spec.
    #[serde(default)]
    pub spec_field: Vec<String>,
}

/// What a new init container must come after.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct After {
    /// The name of that container.
    pub after: String,
}

/// Containers that are the CI system's, so that a patch that gives one an image adds none.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Except {
    /// Their names (globs), besides those that play a role by their name.
    #[serde(default)]
    pub not: Vec<String>,
}

/// Variables that count in one container only.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    /// Their names.
    pub glob: String,
    /// The container.
    pub only: String,
}

fn invalid() -> String {
    "Invalid".into()
}

impl Preset {
    /// Whether a pod with these labels is this system's.
    pub fn selects<'l>(&self, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        let fits = |selector: &BTreeMap<String, Option<String>>| {
            selector.iter().all(|(key, wanted)| match (label(key), wanted) {
                (Some(value), Some(wanted)) => value == wanted,
                (found, _) => found.is_some(),
            })
        };
        self.selectors.iter().any(fits) && !self.without.iter().any(|key| label(key).is_some())
    }

    /// Whether a container plays a role.
    pub fn plays(&self, role: Role, list: ContainerList, container: &Value<'_>) -> bool {
        self.roles.get(&role).is_some_and(|members| members.fit(list, container))
    }
}

impl Reserved {
    /// Whether a key is one of them.
    pub fn holds(&self, key: &str) -> bool {
        let of_domain = |domain: &String| {
            let prefix = key.split_once('/').map(|(prefix, _)| prefix);
            let inner = prefix.and_then(|prefix| prefix.strip_suffix(domain.as_str()));
            inner.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        self.prefixes.iter().any(|prefix| key.starts_with(prefix.as_str()))
            || self.keys.iter().any(|known| known == key)
            || self.domains.iter().any(of_domain)
    }
}

impl Protected {
    /// Whether there is anything.
    pub fn is_empty(&self) -> bool {
        self.spec.is_empty() && self.containers.containers.is_empty() && self.containers.init_containers.is_empty()
    }
}
