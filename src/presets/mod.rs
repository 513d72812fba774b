//! What podlayer knows of each CI system: which pods are its, which containers play which role, what nobody may touch.
//!
//! A preset is data, in one file beside this one; adding one means a file and its name in [`FILES`]. Every preset is
//! known always, so that roles and protection hold for every opted-in pod; the flag `--presets` says which of them opt
//! pods in by themselves.

mod containers;
mod docs;
mod preset;

use std::sync::LazyLock;

use serde::Deserialize;

use crate::{
    value::{glob_matches, to_json},
    yaml,
};

pub use containers::{ContainerList, Members, Role, Rule};
pub use docs::{json, markdown, table};
pub use preset::{After, ClassSource, Denial, Except, Preset, Protected, Reserved, Trap, Unforgeable, Variable};

/// The data, in the order in which a pod is looked for in it: the first whose selectors fit is the pod's.
const FILES: &[&str] = &[
    include_str!("buildkite.yaml"),
    include_str!("arc-runner.yaml"),
    include_str!("arc-workflow.yaml"),
    include_str!("gitlab.yaml"),
    include_str!("jenkins.yaml"),
    include_str!("tekton.yaml"),
    include_str!("argo.yaml"),
    include_str!("job.yaml"),
];

/// Why a data file isn't a preset.
#[derive(Debug, thiserror::Error)]
enum DataError {
    #[error("failed to read the preset's YAML")]
    Yaml(#[source] Box<yaml::Error>),
    #[error("failed to read the preset")]
    Shape(#[source] serde_json::Error),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Common {
    injected: Vec<String>,
}

static PRESETS: LazyLock<Vec<Preset>> = LazyLock::new(|| {
    // INVARIANT: the files are part of the build and a test reads each, so they can't be wrong at run time.
    #[allow(clippy::expect_used)]
    FILES.iter().map(|text| read(text).expect("src/presets holds presets")).collect()
});

static INJECTED: LazyLock<Vec<String>> = LazyLock::new(|| {
    // INVARIANT: as above.
    #[allow(clippy::expect_used)]
    read::<Common>(include_str!("common.yaml")).expect("src/presets/common.yaml can be read").injected
});

fn read<T: for<'de> Deserialize<'de>>(text: &str) -> Result<T, DataError> {
    let parsed = yaml::parse(text, &yaml::Options::LAYER).map_err(|error| DataError::Yaml(Box::new(error)))?;
    serde_json::from_str(&to_json(&parsed.document.value)).map_err(DataError::Shape)
}

/// All presets, in the order in which a pod is looked for in them; the last takes every pod.
pub fn all() -> &'static [Preset] {
    &PRESETS
}

/// A preset by its name.
pub fn named(name: &str) -> Option<&'static Preset> {
    all().iter().find(|preset| preset.name == name)
}

/// The preset of an opted-in pod with these labels: the first whose selectors fit, else `job`.
pub fn of<'l>(label: impl Fn(&str) -> Option<&'l str>) -> &'static Preset {
    let (last, others) = {
        // INVARIANT: there is at least one file.
        #[allow(clippy::expect_used)]
        all().split_last().expect("there are presets")
    };
    others.iter().find(|preset| preset.selects(&label)).unwrap_or(last)
}

/// Whether a container is one that another injector put there, which globs and roles leave alone.
pub fn is_injected(name: &str) -> bool {
    INJECTED.iter().any(|glob| glob_matches(glob, name))
}

/// The globs behind [`is_injected`], sorted.
pub fn injected() -> &'static [String] {
    &INJECTED
}

/// Whether a label or annotation is one by which some CI system, or the Job controller, finds or steers its pods, so
/// that no layer may set it.
pub fn is_reserved(key: &str) -> bool {
    all().iter().any(|preset| preset.reserved.holds(key))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::value::{JsonLimits, from_json};

    #[test]
    fn every_data_file_can_be_read_and_says_what_must_be_said() {
        let names: Vec<&str> = all().iter().map(|preset| preset.name.as_str()).collect();
        assert_eq!(
            names,
            ["buildkite", "arc-runner", "arc-workflow", "gitlab", "jenkins", "tekton", "argo", "job"],
            "the order in which pods are looked for"
        );
        for preset in all() {
            assert!(!preset.selectors.is_empty() && !preset.title.is_empty() && !preset.source.is_empty());
            assert!(preset.roles.contains_key(&Role::Command), "{}", preset.name);
            assert!((400..500).contains(&preset.denial.code), "{}", preset.name);
            let traps: BTreeSet<&str> = preset.traps.iter().map(|trap| trap.name.as_str()).collect();
            assert_eq!(traps.len(), preset.traps.len(), "{}", preset.name);
            for selector in &preset.selectors {
                let own = |key: &str| key == crate::names::ENABLED || preset.reserved.holds(key);
                assert!(selector.keys().all(|key| own(key)), "{}: a layer could set {selector:?}", preset.name);
            }
        }
        assert!(INJECTED.is_sorted_by(|a, b| a.split('-').next() <= b.split('-').next()));
    }

    #[test]
    fn a_pod_has_the_first_preset_that_fits_and_any_other_is_a_jobs() {
        let preset = |labels: &[(&'static str, &'static str)]| {
            let labels = labels.to_vec();
            of(|key| labels.iter().find(|(known, _)| *known == key).map(|(_, value)| *value)).name.as_str()
        };
        assert_eq!(preset(&[("buildkite.com/job-uuid", "x"), ("runner-pod", "y")]), "buildkite");
        assert_eq!(preset(&[("actions-ephemeral-runner", "True")]), "arc-runner");
        assert_eq!(preset(&[("actions-ephemeral-runner", "true")]), "job");
        assert_eq!(preset(&[("jenkins/label-digest", "0")]), "jenkins");
        assert_eq!(preset(&[("workflows.argoproj.io/workflow", "w")]), "argo");
        let agent = [("workflows.argoproj.io/workflow", "w"), ("workflows.argoproj.io/component", "agent")];
        assert_eq!(preset(&agent), "job");
        assert_eq!(preset(&[]), "job");
    }

    #[test]
    fn roles_are_told_by_name_variable_and_restart_policy() {
        let container = |json: &'static str| from_json(json, JsonLimits::DEFAULT).unwrap();
        let buildkite = named("buildkite").unwrap();
        let plays = |role, list, json| buildkite.plays(role, list, &container(json));
        use ContainerList::{Containers, InitContainers};
        let step = r#"{"name": "build", "env": [{"name": "BUILDKITE_COMMAND", "value": "make"}]}"#;
        assert!(plays(Role::Command, Containers, step));
        assert!(!plays(Role::Command, InitContainers, step));
        assert!(!plays(Role::Command, Containers, r#"{"name": "dind", "env": [{"name": "A"}]}"#));
        assert!(plays(Role::Agent, InitContainers, r#"{"name": "imagecheck-0"}"#));
        assert!(plays(Role::Sidecar, InitContainers, r#"{"name": "db", "restartPolicy": "Always"}"#));
        assert!(!plays(Role::Sidecar, InitContainers, r#"{"name": "db"}"#));
        let argo = named("argo").unwrap();
        let wrapped = r#"{"name": "db", "command": ["/var/run/argo/argoexec", "emissary"]}"#;
        assert!(argo.protected.containers.fit(Containers, &container(wrapped)));
        assert!(!argo.protected.containers.fit(Containers, &container(r#"{"name": "db", "command": ["db"]}"#)));
    }

    #[test]
    fn keys_of_ci_systems_are_reserved() {
        for key in
            ["buildkite.com/x", "job.runner.gitlab.com/pod", "a.runner.gitlab.com/x", "job-name", "pod", "runUrl"]
        {
            assert!(is_reserved(key), "{key}");
        }
        assert!(
            !is_reserved("tag.buildkite.com/queue") && !is_reserved("team") && !is_reserved("notrunner.gitlab.com.x/a")
        );
        assert!(is_injected("istio-proxy") && is_injected("datadog-lib-java-init") && !is_injected("proxy"));
    }
}
