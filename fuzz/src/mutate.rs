//! Mutations that leave JSON whole. Bytes changed at random are no JSON any more, so nothing behind the parser would be tried.

use libfuzzer_sys::fuzzer_mutate;
use serde_json::{Map, Value, json};

/// Names that mean something: fields, directives, keys.
const NAMES: [&str; 96] = [
    "metadata",
    "spec",
    "labels",
    "annotations",
    "name",
    "generateName",
    "finalizers",
    "ownerReferences",
    "uid",
    "containers",
    "initContainers",
    "ephemeralContainers",
    "volumes",
    "env",
    "envFrom",
    "ports",
    "containerPort",
    "protocol",
    "hostPort",
    "volumeMounts",
    "mountPath",
    "subPath",
    "volumeDevices",
    "devicePath",
    "image",
    "command",
    "args",
    "resources",
    "limits",
    "requests",
    "claims",
    "cpu",
    "memory",
    "securityContext",
    "privileged",
    "runAsUser",
    "capabilities",
    "add",
    "drop",
    "value",
    "valueFrom",
    "secretKeyRef",
    "key",
    "configMap",
    "secret",
    "secretName",
    "emptyDir",
    "hostPath",
    "path",
    "projected",
    "sources",
    "serviceAccountToken",
    "ephemeral",
    "volumeClaimTemplate",
    "tolerations",
    "nodeSelector",
    "affinity",
    "topologySpreadConstraints",
    "topologyKey",
    "hostAliases",
    "ip",
    "hostnames",
    "imagePullSecrets",
    "schedulingGates",
    "resourceClaims",
    "dnsConfig",
    "options",
    "searches",
    "priorityClassName",
    "priority",
    "preemptionPolicy",
    "runtimeClassName",
    "overhead",
    "automountServiceAccountToken",
    "serviceAccountName",
    "hostNetwork",
    "hostPID",
    "restartPolicy",
    "activeDeadlineSeconds",
    "lifecycle",
    "livenessProbe",
    "exec",
    "httpGet",
    "kind",
    "match",
    "order",
    "patch",
    "step",
    "apply",
    "unionLists",
    "required",
    "podlayer.dev/enabled",
    "podlayer.dev/classes",
    "podlayer.dev/pod-spec-patch",
    "buildkite.com/job-uuid",
    "futureField",
];

/// Texts that mean something, besides names.
const TEXTS: [&str; 40] = [
    "",
    "a",
    "b",
    "c",
    "*",
    "c*",
    "@command",
    "@agent",
    "@sidecar",
    "@checkout",
    "container-0",
    "agent",
    "dind",
    "copy-agent",
    "delete",
    "replace",
    "merge",
    "$patch",
    "500m",
    "1Gi",
    "0",
    "80",
    "true",
    "yes",
    "null",
    "Always",
    "Never",
    "Exists",
    "class",
    "default",
    "IfAbsent",
    "Override",
    "Add",
    "Skip",
    "Error",
    "Audit",
    "l0",
    "l1",
    "/",
    "~",
];

struct Random(u64);

impl Random {
    /// A number below another one, or 0.
    fn below(&mut self, most: usize) -> usize {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % (most.max(1) as u64)) as usize
    }

    fn of<'t>(&mut self, all: &[&'t str]) -> &'t str {
        all[self.below(all.len())]
    }

    fn name(&mut self, value: &Value) -> String {
        let directive = match self.below(24) {
            0 => "$setElementOrder/",
            1 => "$deleteFromPrimitiveList/",
            2 => return "$retainKeys".to_owned(),
            3 | 4 => return "$patch".to_owned(),
            _ => "",
        };
        let own = value.as_object().filter(|_| self.below(3) == 0);
        let own = own.and_then(|map| map.keys().nth(self.below(map.len())).cloned());
        format!("{directive}{}", own.unwrap_or_else(|| self.of(&NAMES).to_owned()))
    }

    fn scalar(&mut self) -> Value {
        match self.below(12) {
            0 => Value::Null,
            1 => json!(self.below(2) == 0),
            2 => json!(self.below(100)),
            3 => [json!(-1), json!(1.5), json!(80.0), json!(i64::MAX), json!(u64::MAX), json!(1e300)][self.below(6)]
                .clone(),
            4 => json!([]),
            5 => json!({}),
            6 => json!({"$patch": self.of(&["delete", "replace", "merge", ""])}),
            7 => json!({"name": self.of(&TEXTS)}),
            8 => json!(self.of(&NAMES)),
            _ => json!(self.of(&TEXTS)),
        }
    }
}

/// Mutates an input: mostly as JSON, if it is JSON, else as bytes. For `fuzz_mutator!`.
pub fn mutate(data: &mut [u8], size: usize, most: usize, seed: u32) -> usize {
    let mut random = Random(u64::from(seed));
    if random.below(16) > 0
        && let Ok(mut value) = serde_json::from_slice::<Value>(&data[..size])
    {
        for _ in 0..=random.below(4) {
            step(&mut value, &mut random);
        }
        let text = value.to_string();
        if text.len() <= most.min(data.len()) {
            data[..text.len()].copy_from_slice(text.as_bytes());
            return text.len();
        }
    }
    fuzzer_mutate(data, size, most)
}

fn step(value: &mut Value, random: &mut Random) {
    let nodes = count(value);
    let (at, from) = (random.below(nodes), random.below(nodes));
    let graft = if random.below(2) == 0 { nth(value, from).clone() } else { random.scalar() };
    let node = nth(value, at);
    let name = random.name(node);
    match (node, random.below(5)) {
        (Value::Object(map), 0) => {
            let key = map.keys().nth(random.below(map.len())).cloned();
            key.and_then(|key| map.remove(&key));
        }
        (Value::Object(map), 1) => {
            let key = map.keys().nth(random.below(map.len())).cloned();
            if let Some(value) = key.and_then(|key| map.remove(&key)) {
                map.insert(name, value);
            }
        }
        (Value::Object(map), 2 | 3) => _ = map.insert(name, graft),
        (Value::Array(items), 0) if !items.is_empty() => _ = items.remove(random.below(items.len())),
        (Value::Array(items), 1) if !items.is_empty() => {
            let (one, other) = (random.below(items.len()), random.below(items.len()));
            items.swap(one, other);
        }
        (Value::Array(items), 2 | 3) => {
            let copied = items.get(random.below(items.len())).cloned();
            let at = random.below(items.len() + 1);
            items.insert(at, copied.filter(|_| random.below(2) == 0).unwrap_or(graft));
        }
        (Value::String(text), 0) => {
            let at = random.below(text.len() + 1);
            if text.is_char_boundary(at) {
                text.insert_str(at, random.of(&TEXTS));
            }
        }
        (Value::String(text), 1) => {
            let at = random.below(text.len() + 1);
            if text.is_char_boundary(at) {
                text.truncate(at);
            }
        }
        (node, _) => *node = graft,
    }
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(map) => map.values().map(count).sum(),
        _ => 0,
    }
}

/// A node by its number, parents first.
fn nth(value: &mut Value, at: usize) -> &mut Value {
    if at == 0 {
        return value;
    }
    let mut left = at - 1;
    let children: Box<dyn Iterator<Item = &mut Value>> = match value {
        Value::Array(items) => Box::new(items.iter_mut()),
        Value::Object(map) => Box::new(Map::values_mut(map)),
        _ => unreachable!("a scalar has one node"),
    };
    for child in children {
        let nodes = count(child);
        if left < nodes {
            return nth(child, left);
        }
        left -= nodes;
    }
    unreachable!("there are as many nodes")
}
