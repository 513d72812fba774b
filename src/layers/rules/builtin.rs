//! What a step may change where no rule set says otherwise. One table: `docs/guard-rails.md` is printed from it, and a
//! test compares.

use std::{fmt::Write, sync::LazyLock};

use super::{
    Index, Membership, Pattern,
    privileged::{FIELDS, Harmless},
};
use crate::value::Path;

/// One thing that a step may change.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The path; one below `containers` holds for `initContainers` as well.
    pub path: &'static str,
    /// What else holds, for people.
    pub note: &'static str,
}

const fn entry(path: &'static str, note: &'static str) -> Entry {
    Entry { path, note }
}

/// The table. `[*]` is never the CI system's, `[+]` is a container that the step adds, `[@system]` one of the CI system.
pub const TABLE: &[Entry] = &[
    entry("containers[*].image", ""),
    entry("containers[*].env", ""),
    entry("containers[*].envFrom", "no Secret that the CI system's own containers read"),
    entry("containers[*].command", "where the preset doesn't protect it"),
    entry("containers[*].args", "where the preset doesn't protect it"),
    entry("containers[*].resources", "not `claims`"),
    entry("containers[*].workingDir", "where the preset doesn't protect it"),
    entry(
        "containers[*].volumeMounts",
        "not over a mount of the CI system's, and only of volumes that the step could make",
    ),
    entry("containers[@system].resources", "not `claims`"),
    entry("containers[+].image", ""),
    entry("containers[+].imagePullPolicy", ""),
    entry("containers[+].env", ""),
    entry("containers[+].envFrom", "no Secret that the CI system's own containers read"),
    entry("containers[+].command", ""),
    entry("containers[+].args", ""),
    entry("containers[+].resources", "not `claims`"),
    entry("containers[+].workingDir", ""),
    entry("containers[+].volumeMounts", "only of volumes that the step could make, or that its own containers mount"),
    entry("containers[+].ports", "not `hostPort`"),
    entry("containers[+].restartPolicy", "`Always` makes an init container a sidecar"),
    entry("containers[+].livenessProbe", "not another `host`"),
    entry("containers[+].readinessProbe", "not another `host`"),
    entry("containers[+].startupProbe", "not another `host`"),
    entry("containers[+].lifecycle", "not another `host`"),
    entry("containers[+].securityContext.allowPrivilegeEscalation", "`false`"),
    entry("containers[+].securityContext.capabilities.drop", ""),
    entry("containers[+].securityContext.privileged", "`false`"),
    entry("containers[+].securityContext.readOnlyRootFilesystem", ""),
    entry("containers[+].securityContext.runAsGroup", "not `0`"),
    entry("containers[+].securityContext.runAsNonRoot", "`true`"),
    entry("containers[+].securityContext.runAsUser", "not `0`"),
    entry("containers[+].securityContext.seccompProfile", "`RuntimeDefault`"),
    entry("containers[+].stdin", ""),
    entry("containers[+].stdinOnce", ""),
    entry("containers[+].terminationMessagePath", ""),
    entry("containers[+].terminationMessagePolicy", ""),
    entry("containers[+].tty", ""),
    entry("volumes[*].configMap", ""),
    entry("volumes[*].emptyDir", ""),
    entry("volumes[*].ephemeral", ""),
    entry("volumes[*].persistentVolumeClaim", ""),
    entry("volumes[*].projected", "no service account token, no pod certificate"),
    entry("volumes[*].secret", "no Secret that the CI system's own containers read"),
    entry("activeDeadlineSeconds", ""),
];

/// The table as patterns.
pub static PATTERNS: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
    let both = TABLE.iter().flat_map(|entry| for_both_lists(entry.path));
    // INVARIANT: the table is part of the build and a test reads all of it.
    #[allow(clippy::expect_used)]
    both.map(|path| Pattern::parse(&path).expect("the built-in list holds paths")).collect()
});

static INDEX: LazyLock<Index> = LazyLock::new(|| Index::of(PATTERNS.iter()));

/// Whether the table has a path.
pub fn covers(path: &Path, who: &impl Membership) -> bool {
    INDEX.candidates(path).any(|at| PATTERNS[at].covers(path, who))
}

/// A path below `containers` stands for the one below `initContainers` too.
pub(super) fn for_both_lists(path: &str) -> Vec<String> {
    let mut paths = vec![path.to_owned()];
    if path.starts_with("containers") {
        paths.push(path.replacen("containers", "initContainers", 1));
    }
    paths
}

/// Both tables, as they stand in `docs/guard-rails.md`.
pub fn markdown() -> String {
    let mut out = String::from("### What a step may change\n\n| path | but |\n|---|---|\n");
    for Entry { path, note } in TABLE {
        let _ = writeln!(out, "| `{path}` | {note} |");
    }
    out.push_str("\n### What gives privileges\n\n| path | unless it is | why |\n|---|---|---|\n");
    for field in FIELDS {
        let unless = match field.harmless {
            Harmless::Never => String::from("not there"),
            Harmless::Values(values) => values.iter().map(|v| format!("`{v}`")).collect::<Vec<_>>().join(" or "),
            Harmless::All(values) => {
                format!("nothing but {}", values.iter().map(|v| format!("`{v}`")).collect::<Vec<_>>().join(", "))
            }
            Harmless::Not(value) => format!("another than `{value}`"),
            Harmless::NoToken => String::from("without token and certificate"),
        };
        let _ = writeln!(out, "| `{}` | {unless} | {} |", field.path, field.why);
    }
    out
}
