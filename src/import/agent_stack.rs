//! The configuration of agent-stack-k8s: its controller's own patch, metadata, resource classes and defaults.

use super::{ImportError, Imported, NewLayer, config_map_name, entries, object, read};
use crate::{
    names,
    value::{Map, Marks, Value},
};

/// Every pod of agent-stack-k8s has this label, and no step can take it away.
const JOB: &str = "buildkite.com/job-uuid";
/// Which resource class a step asked for.
const CLASS: &str = "tag.buildkite.com/resource_class";

/// Keys of the configuration that podlayer has nothing to do with stay where they are without a word; these have one.
const REMARKS: &[(&str, &str)] = &[
    (
        "prohibit-kubernetes-plugin",
        "with it no step can bring an annotation, so no step patch either; podlayer's rules confine steps without it",
    ),
    (
        "allow-pod-spec-patch-unsafe-command-modification",
        "podlayer never lets a layer change command or args of agent-stack-k8s' containers",
    ),
    (
        "default-image-check-pull-policy",
        "imagecheck stays the controller's; it looks at images before podlayer's layers, so those that a layer sets are not checked",
    ),
    ("skip-image-check-containers", "imagecheck stays the controller's; it looks at images before podlayer's layers"),
    ("image-check-container-cpu-limit", "can be a layer for the init containers imagecheck-*; left in the controller"),
    (
        "image-check-container-memory-limit",
        "can be a layer for the init containers imagecheck-*; left in the controller",
    ),
    ("workspace-volume", "left in the controller, which mounts it before podlayer sees the pod"),
];

/// Reads a configuration, or the Helm values that hold it under `config`.
///
/// # Errors
/// [`ImportError`].
pub fn agent_stack(text: &str) -> Result<Imported, ImportError> {
    let document = read(text)?;
    let (mut config, mut marks) = (&document.value, &document.marks);
    if let Some((_, value, inner)) = entries(config, marks).find(|(key, ..)| *key == "config") {
        (config, marks) = (value, inner);
    }
    if config.as_object().is_none() {
        return Err(ImportError::Shape { text: "the configuration of agent-stack-k8s is wanted".into(), at: marks.at });
    }
    let mut reader = Reader { imported: Imported::default() };
    for (key, value, marks) in entries(config, marks) {
        reader.key(key, value, marks);
    }
    if let Some(name) = config.get("default-resource-class-name").and_then(Value::as_str) {
        let classes = config.get("resource-classes");
        match classes.and_then(|classes| classes.get(name)) {
            Some(class) => {
                let patch = patch_of_class(class);
                let no_class = expression(CLASS, "DoesNotExist");
                reader.layer(
                    "default-resource-class",
                    "default",
                    60,
                    vec![(names::KEY_PATCH, patch)],
                    vec![no_class],
                    None,
                );
            }
            None => {
                reader.imported.remark(marks.at, format!("default-resource-class-name: there is no class {name:?}"))
            }
        }
    }
    Ok(reader.imported)
}

struct Reader {
    imported: Imported,
}

impl Reader {
    fn key(&mut self, key: &str, value: &Value<'static>, marks: &Marks) {
        let at = marks.shown();
        match key {
            "pod-spec-patch" => self.patch(value, marks),
            "default-metadata" => self.metadata(value, marks),
            "resource-classes" => {
                for (name, class, marks) in entries(value, marks) {
                    let renamed = config_map_name(name);
                    if renamed != name {
                        let text = format!(
                            "class {name:?} becomes {renamed:?}, since it is the name of a ConfigMap: steps must ask for that"
                        );
                        self.imported.remark(marks.shown(), text);
                    }
                    self.layer(&renamed, "class", 0, vec![(names::KEY_PATCH, patch_of_class(class))], Vec::new(), None);
                }
                self.imported.remark(at, "a class comes after the controller's patch here and wins over it; the old controller had it the other way round");
            }
            "default-command-params" => self.params("command", "containers", value, marks),
            "default-checkout-params" => self.params("checkout", "containers", value, marks),
            "default-sidecar-params" => self.params("sidecar", "initContainers", value, marks),
            _ => {
                if let Some((_, text)) = REMARKS.iter().find(|(known, _)| *known == key) {
                    self.imported.remark(at, format!("{key}: {text}"));
                }
            }
        }
    }

    fn layer(
        &mut self,
        name: &str,
        kind: &'static str,
        order: i64,
        mut data: Vec<(&'static str, Value<'static>)>,
        mut more: Vec<Value<'static>>,
        options: Option<Value<'static>>,
    ) {
        more.insert(0, expression(JOB, "Exists"));
        data.push((names::KEY_MATCH, object([("matchExpressions", Value::List(more))])));
        data.extend(options.map(|options| (names::KEY_OPTIONS, options)));
        self.imported.layers.push(NewLayer { name: name.to_owned(), kind, order, data });
    }

    /// The controller's own patch. What the controller folded into variables can't come from a layer.
    fn patch(&mut self, value: &Value<'static>, marks: &Marks) {
        let mut patch = value.clone();
        for list in ["containers", "initContainers"] {
            let items = entries(value, marks).find(|(key, ..)| *key == list).map(|(_, items, marks)| (items, marks));
            let Some((Value::List(items), marks)) = items else { continue };
            for (item, marks) in items.iter().zip(&marks.children) {
                self.item(item, marks);
            }
            let kept = patch.as_object_mut().and_then(|map| map.get_mut(list)).and_then(Value::as_list_mut);
            for map in kept.into_iter().flatten().filter_map(Value::as_object_mut) {
                if !is_added(&Value::Object(map.clone())) {
                    map.retain(|key, _| key != "command" && key != "args");
                }
            }
        }
        self.layer("pod-spec-patch", "default", 100, vec![(names::KEY_PATCH, patch)], Vec::new(), None);
    }

    fn item(&mut self, item: &Value<'static>, marks: &Marks) {
        let name = item.get("name").and_then(Value::as_str).unwrap_or_default();
        let added = is_added(item);
        for (key, _, marks) in entries(item, marks) {
            let at = marks.shown();
            match key {
                "command" | "args" if !added => self.imported.remark(
                    at,
                    format!("{key} of {name} left out: the old controller folds it into BUILDKITE_COMMAND before the Job is made, which a layer can't"),
                ),
                "volumeMounts" => self.imported.remark(
                    at,
                    format!("volumeMounts of {name}: the old controller drops the second mount of a path, podlayer merges the two by mountPath"),
                ),
                "image" if name.starts_with("container-") => self.imported.remark(
                    at,
                    format!("image of {name}: imagecheck looks at the image before the layer and not at this one; and a step's own image: attribute came after the controller's patch, here the layer wins over it"),
                ),
                "image" => self.imported.remark(
                    at,
                    format!("{name}, if it is new: neither controller counts it in BUILDKITE_CONTAINER_COUNT, so the job ends without waiting for it"),
                ),
                _ => {}
            }
        }
        if name.starts_with("imagecheck-") {
            self.imported.remark(marks.at, format!("{name}: the numbers change from job to job, write imagecheck-*"));
        }
    }

    fn metadata(&mut self, value: &Value<'static>, marks: &Marks) {
        let mut metadata = Map::new();
        for (kind, kept, marks) in entries(value, marks) {
            let mut map = Map::new();
            for (key, value, marks) in entries(kept, marks) {
                if key.starts_with("buildkite.com/") || key.starts_with(names::DOMAIN) {
                    self.imported.remark(marks.shown(), format!("{kind} {key} left out: no layer may set it"));
                } else if let Some(text) = value.scalar_text() {
                    map.insert(key.to_owned(), Value::from(text.into_owned()));
                }
            }
            metadata.insert(kind.to_owned(), Value::Object(map));
        }
        // The plugin's own metadata wins, as it does there.
        let options = object([("apply", Value::from("IfAbsent".to_owned()))]);
        let data = vec![(names::KEY_METADATA, Value::Object(metadata))];
        self.layer("default-metadata", "default", 10, data, Vec::new(), Some(options));
        self.imported.remark(
            marks.shown(),
            "default-metadata: set on the pod only, the old controller sets it on the Job as well",
        );
    }

    fn params(&mut self, role: &str, list: &'static str, value: &Value<'static>, marks: &Marks) {
        let mut item = Map::new();
        item.insert("name", Value::from(format!("@{role}")));
        for (key, value, marks) in entries(value, marks) {
            match key {
                "envFrom" => _ = item.insert("envFrom", value.clone()),
                "extraVolumeMounts" => _ = item.insert("volumeMounts", value.clone()),
                _ => self.imported.remark(
                    marks.shown(),
                    format!("{key} of the {role} containers: the controller works it into their commands and variables, leave it there"),
                ),
            }
        }
        if item.len() > 1 {
            let patch = object([(list, Value::List(vec![Value::Object(item)]))]);
            let union = Value::List(vec![Value::from(format!("{list}[*].envFrom"))]);
            let options = object([("unionLists", union)]);
            self.layer(
                &format!("default-{role}-params"),
                "default",
                50,
                vec![(names::KEY_PATCH, patch)],
                Vec::new(),
                Some(options),
            );
        }
    }
}

/// Whether an item brings a container of its own: it has an image, and no name of the controller's.
fn is_added(item: &Value<'_>) -> bool {
    let name = item.get("name").and_then(Value::as_str).unwrap_or_default();
    let own = ["agent", "checkout", "copy-agent"].contains(&name);
    let own = own || name.starts_with("container-") || name.starts_with("imagecheck-");
    item.get("image").is_some() && !own
}

/// A resource class as a patch.
fn patch_of_class(class: &Value<'static>) -> Value<'static> {
    let mut patch = Map::new();
    if let Some(resources) = class.get("resource").filter(|value| value.as_object().is_some()) {
        let item = object([("name", Value::from("@command".to_owned())), ("resources", resources.clone())]);
        patch.insert("containers", Value::List(vec![item]));
    }
    for (from, to) in [("podResource", "resources"), ("nodeSelector", "nodeSelector")] {
        if let Some(value) = class.get(from) {
            patch.insert(to, value.clone());
        }
    }
    Value::Object(patch)
}

fn expression(key: &str, operator: &str) -> Value<'static> {
    object([("key", Value::from(key.to_owned())), ("operator", Value::from(operator.to_owned()))])
}

/// The controller's own patch, to compare with.
pub(super) fn controller_patch(text: &str) -> Result<Option<Value<'static>>, ImportError> {
    let document = read(text)?;
    let config = document.value.get("config").unwrap_or(&document.value);
    Ok(config.get("pod-spec-patch").cloned())
}
