//! Which fields give a pod more than any pod has. One table, for three questions: whether a rule set may allow a path,
//! whether a step gains something, and (with `LayersOnly`) whether an admin's layer gave what the pod has.

use std::sync::LazyLock;

use self::Harmless::{All, Never, NoToken, Not, Values};
use super::{Index, Items, Membership, Pattern, builtin::for_both_lists};
use crate::value::{Path, Value};

/// A field that gives privileges.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The path; one below `containers` holds for `initContainers` as well.
    pub path: &'static str,
    /// Which values give none.
    pub harmless: Harmless,
    /// What it gives.
    pub why: &'static str,
}

/// Which values of a field give no privilege.
#[derive(Clone, Copy, Debug)]
pub enum Harmless {
    /// None: that it is there is enough.
    Never,
    /// These.
    Values(&'static [&'static str]),
    /// Lists of nothing but these.
    All(&'static [&'static str]),
    /// All but this.
    Not(&'static str),
    /// Sources of a projected volume without a service account token or a pod certificate.
    NoToken,
}

const fn field(path: &'static str, harmless: Harmless, why: &'static str) -> Field {
    Field { path, harmless, why }
}

/// Capabilities that container runtimes give everybody (the list of the Pod Security Standards' level `baseline`).
const BASELINE: &[&str] = &[
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// The table. A volume counts where it is declared and again in each container that mounts it.
pub const FIELDS: &[Field] = &[
    field("hostNetwork", Values(&["false"]), "the node's network"),
    field("hostPID", Values(&["false"]), "the node's processes"),
    field("hostIPC", Values(&["false"]), "the node's shared memory"),
    field("hostUsers", Values(&["false", "true"]), "taking `false` away makes root in the pod root on the node"),
    field("shareProcessNamespace", Values(&["false"]), "other containers' processes, files and variables"),
    field("serviceAccountName", Values(&["default", ""]), "what the account may do"),
    field("serviceAccount", Values(&["default", ""]), "what the account may do"),
    field("automountServiceAccountToken", Values(&["false", "true"]), "a token of the account"),
    field("runtimeClassName", Never, "another isolation from the node"),
    field("resourceClaims", Never, "devices"),
    field("securityContext.runAsUser", Not("0"), "root"),
    field("securityContext.runAsGroup", Not("0"), "root's group"),
    field("securityContext.runAsNonRoot", Values(&["true"]), "root"),
    field("securityContext.supplementalGroups", Never, "other groups' files"),
    field("securityContext.seLinuxOptions", Never, "another confinement"),
    field("securityContext.seccompProfile", Values(&["RuntimeDefault"]), "more system calls"),
    field("securityContext.appArmorProfile", Values(&["RuntimeDefault"]), "another confinement"),
    field("securityContext.sysctls", Never, "kernel settings"),
    field("securityContext.windowsOptions", Never, "another user, or the host"),
    field("containers[*].securityContext.privileged", Values(&["false"]), "everything on the node"),
    field(
        "containers[*].securityContext.allowPrivilegeEscalation",
        Values(&["false"]),
        "more than it was started with",
    ),
    field("containers[*].securityContext.capabilities.add", All(BASELINE), "more than any container has"),
    field("containers[*].securityContext.runAsUser", Not("0"), "root"),
    field("containers[*].securityContext.runAsGroup", Not("0"), "root's group"),
    field("containers[*].securityContext.runAsNonRoot", Values(&["true"]), "root"),
    field("containers[*].securityContext.seLinuxOptions", Never, "another confinement"),
    field("containers[*].securityContext.seccompProfile", Values(&["RuntimeDefault"]), "more system calls"),
    field("containers[*].securityContext.appArmorProfile", Values(&["RuntimeDefault"]), "another confinement"),
    field("containers[*].securityContext.procMount", Values(&["Default"]), "the kernel's files"),
    field("containers[*].securityContext.windowsOptions", Never, "another user, or the host"),
    field("containers[*].ports[*].hostPort", Values(&["0"]), "a port of the node"),
    field("containers[*].volumeDevices", Never, "a raw device"),
    field("containers[*].resources.claims", Never, "devices"),
    field("containers[*].livenessProbe.httpGet.host", Values(&[""]), "requests from the node"),
    field("containers[*].livenessProbe.tcpSocket.host", Values(&[""]), "requests from the node"),
    field("containers[*].readinessProbe.httpGet.host", Values(&[""]), "requests from the node"),
    field("containers[*].readinessProbe.tcpSocket.host", Values(&[""]), "requests from the node"),
    field("containers[*].startupProbe.httpGet.host", Values(&[""]), "requests from the node"),
    field("containers[*].startupProbe.tcpSocket.host", Values(&[""]), "requests from the node"),
    field("containers[*].lifecycle.postStart.httpGet.host", Values(&[""]), "requests from the node"),
    field("containers[*].lifecycle.postStart.tcpSocket.host", Values(&[""]), "requests from the node"),
    field("containers[*].lifecycle.preStop.httpGet.host", Values(&[""]), "requests from the node"),
    field("containers[*].lifecycle.preStop.tcpSocket.host", Values(&[""]), "requests from the node"),
    field("volumes[*].projected.sources", NoToken, "a token or certificate that names the account"),
    field("volumes[*].hostPath", Never, "files of the node"),
    field("volumes[*].csi", Never, "whatever its driver gives"),
    field("volumes[*].flexVolume", Never, "whatever its driver gives"),
    field("volumes[*].awsElasticBlockStore", Never, "storage that no claim guards"),
    field("volumes[*].azureDisk", Never, "storage that no claim guards"),
    field("volumes[*].azureFile", Never, "storage that no claim guards"),
    field("volumes[*].cephfs", Never, "storage that no claim guards"),
    field("volumes[*].cinder", Never, "storage that no claim guards"),
    field("volumes[*].fc", Never, "storage that no claim guards"),
    field("volumes[*].flocker", Never, "storage that no claim guards"),
    field("volumes[*].gcePersistentDisk", Never, "storage that no claim guards"),
    field("volumes[*].gitRepo", Never, "git run on the node"),
    field("volumes[*].glusterfs", Never, "storage that no claim guards"),
    field("volumes[*].iscsi", Never, "storage that no claim guards"),
    field("volumes[*].nfs", Never, "storage that no claim guards"),
    field("volumes[*].photonPersistentDisk", Never, "storage that no claim guards"),
    field("volumes[*].portworxVolume", Never, "storage that no claim guards"),
    field("volumes[*].quobyte", Never, "storage that no claim guards"),
    field("volumes[*].rbd", Never, "storage that no claim guards"),
    field("volumes[*].scaleIO", Never, "storage that no claim guards"),
    field("volumes[*].storageos", Never, "storage that no claim guards"),
    field("volumes[*].vsphereVolume", Never, "storage that no claim guards"),
];

/// Sources of volumes that give no privilege; every other one stands in the table, which a test checks.
pub const HARMLESS_VOLUMES: &[&str] =
    &["configMap", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret"];

static PATTERNS: LazyLock<Vec<(Pattern, &'static Field)>> = LazyLock::new(|| {
    let both = FIELDS.iter().flat_map(|field| for_both_lists(field.path).into_iter().map(move |path| (path, field)));
    // INVARIANT: the table is part of the build and a test reads all of it.
    #[allow(clippy::expect_used)]
    both.map(|(path, field)| (Pattern::parse(&path).expect("the table holds paths"), field)).collect()
});

static INDEX: LazyLock<Index> = LazyLock::new(|| Index::of(PATTERNS.iter().map(|(pattern, _)| pattern)));

/// All items, whosever they are.
pub struct Everything;

impl Membership for Everything {
    fn is_member(&self, _list: &str, items: &Items, key: &str) -> bool {
        items.may_be(key)
    }
}

/// A privilege that a pod has.
#[derive(Clone, Debug)]
pub struct Found<'v, 'a> {
    /// Where.
    pub path: Path,
    /// The row of the table.
    pub field: &'static Field,
    /// The value.
    pub value: &'v Value<'a>,
}

/// The privileges that stand in a spec.
pub fn find<'v, 'a>(spec: &'v Value<'a>) -> Vec<Found<'v, 'a>> {
    let mut all = Vec::new();
    // The older name of the field counts only where the newer one is missing.
    let is_named = spec.get("serviceAccountName").and_then(Value::as_str).is_some_and(|name| !name.is_empty());
    for (pattern, field) in PATTERNS.iter() {
        if is_named && pattern.as_str() == "serviceAccount" {
            continue;
        }
        let found = pattern.find(spec, &Everything).into_iter();
        let found = found.filter(|(path, value)| !field.harmless.holds(value) && !is_token_of_everybody(path, value));
        all.extend(found.map(|(path, value)| Found { path, field, value }));
    }
    all
}

/// Whether a rule set that allows this path must say `privileged: true`.
pub fn reached_by(allowed: &Pattern) -> Option<&'static Field> {
    let by_path = |field: &Field| !matches!(field.harmless, NoToken);
    PATTERNS.iter().find(|(pattern, field)| by_path(field) && pattern.meets(allowed)).map(|(_, field)| *field)
}

/// Whether a change at a path of the pod gives privileges, or takes away what keeps them off. `after` is what stands there
/// now, nothing where it was taken away.
pub fn is_gained(path: &Path, after: Option<&Value<'_>>) -> bool {
    let rows = INDEX.candidates(path).map(|at| &PATTERNS[at]).filter(|(pattern, _)| pattern.covers(path, &Everything));
    rows.into_iter().any(|(pattern, field)| match after {
        // The row may mean something above, of which nothing is harmless but by its own value.
        Some(value) if path.segments().len() == pattern.steps().len() + 1 => !field.harmless.holds(value),
        Some(value) => !field.harmless.holds_within(value),
        None => !matches!(field.harmless, NoToken | Never | All(_)),
    })
}

impl Harmless {
    /// Whether a value gives no privilege.
    pub fn holds(self, value: &Value<'_>) -> bool {
        let text = value.scalar_text();
        match self {
            Never => false,
            // A profile is told by its type.
            Values(harmless) if value.as_object().is_some() => {
                value.get("type").and_then(Value::as_str).is_some_and(|kind| harmless.contains(&kind))
            }
            Values(harmless) => text.is_some_and(|text| harmless.contains(&text.as_ref())),
            All(harmless) => value.as_list().is_some_and(|items| {
                let known = |item: &Value<'_>| item.as_str().is_some_and(|name| harmless.contains(&name));
                items.iter().all(known)
            }),
            Not(value) => text.is_some_and(|text| text != value),
            NoToken => value.as_list().is_some_and(|sources| {
                let names_account = |source: &Value<'_>| {
                    ["serviceAccountToken", "podCertificate"].iter().any(|key| source.get(key).is_some())
                };
                !sources.iter().any(names_account)
            }),
        }
    }

    /// The same for a value somewhere below the field.
    fn holds_within(self, value: &Value<'_>) -> bool {
        matches!(self, Values(_)) && self.holds(value)
    }
}

/// The token that the API server puts into every pod: no more than any pod has.
fn is_token_of_everybody(path: &Path, sources: &Value<'_>) -> bool {
    let of_plugin = path.to_string().starts_with("spec.volumes[name=kube-api-access-");
    let plain = |source: &Value<'_>| {
        let token = source.get("serviceAccountToken");
        source.get("podCertificate").is_none()
            && token.is_none_or(|token| token.get("audience").is_none_or(|audience| audience.as_str() == Some("")))
    };
    of_plugin && sources.as_list().is_some_and(|sources| sources.iter().all(plain))
}
