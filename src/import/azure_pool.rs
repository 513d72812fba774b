//! A pool of k8s-poolprovider: `AzurePipelinesPool`, dev.azure.com/v1alpha1.

use super::{ImportError, entries, object, read};
use crate::{
    layers::manifest,
    names,
    value::{Map, Marks, Position, Value},
    yaml,
};

/// The longest name of an AgentPool.
const LONGEST_NAME: usize = 40;
/// How many agents a pool may have if nobody says: that of the original was a number in Azure DevOps alone.
const MAX: i64 = 10;

/// What became of the pools in a file.
#[derive(Debug, Default)]
pub struct ImportedPools {
    /// AgentPools.
    pub pools: Vec<Value<'static>>,
    /// What doesn't carry over, or works in another way, with its place in the file.
    pub remarks: Vec<(Position, String)>,
}

impl ImportedPools {
    /// The pools as manifests.
    pub fn to_yaml(&self) -> String {
        self.pools.iter().map(|pool| format!("---\n{}", yaml::to_yaml(pool))).collect()
    }
}

/// Reads the pools of a file, also as `kubectl get -o yaml` lists them. `max` is how many agents each may have.
///
/// # Errors
/// [`ImportError`].
pub fn azure_pool(text: &str, max: Option<i64>) -> Result<ImportedPools, ImportError> {
    let mut imported = ImportedPools::default();
    for (line, part) in manifest::documents(text) {
        let start = Position { line, column: 1 };
        let document = read(part)?;
        let kind = document.value.get("kind").and_then(Value::as_str).unwrap_or_default();
        if kind.ends_with("List") {
            for (key, items, marks) in entries(&document.value, &document.marks) {
                let items = items.as_list().unwrap_or_default().iter().zip(&marks.children);
                for (item, marks) in items.filter(|_| key == "items") {
                    Reading { imported: &mut imported, start, max }.pool(item, marks)?;
                }
            }
        } else {
            Reading { imported: &mut imported, start, max }.pool(&document.value, &document.marks)?;
        }
    }
    Ok(imported)
}

struct Reading<'i> {
    imported: &'i mut ImportedPools,
    start: Position,
    max: Option<i64>,
}

/// One of the pools that the original had beneath a resource.
struct Agents<'d> {
    name: &'d str,
    spec: &'d Value<'static>,
    marks: &'d Marks,
}

impl Reading<'_> {
    fn at(&self, marks: &Marks) -> Position {
        marks.shown().within(self.start, 0)
    }

    fn remark(&mut self, marks: &Marks, text: impl Into<String>) {
        let at = self.at(marks);
        self.imported.remarks.push((at, text.into()));
    }

    fn shape<T>(&self, marks: &Marks, text: &str) -> Result<T, ImportError> {
        Err(ImportError::Shape { text: text.into(), at: self.at(marks) })
    }

    fn pool(&mut self, pool: &Value<'static>, marks: &Marks) -> Result<(), ImportError> {
        let word = |key: &str| pool.get(key).and_then(Value::as_str).unwrap_or_default();
        if word("kind") != "AzurePipelinesPool" || !word("apiVersion").starts_with("dev.azure.com/") {
            self.remark(marks, format!("a {} is no AzurePipelinesPool of dev.azure.com: left out", word("kind")));
            return Ok(());
        }
        let Some((_, spec, spec_marks)) = entries(pool, marks).find(|(key, ..)| *key == "spec") else {
            return self.shape(marks, "the AzurePipelinesPool has no spec");
        };
        let (mut buildkit, mut all) = (None, Vec::new());
        for (key, value, marks) in entries(spec, spec_marks) {
            match (key, value) {
                ("agentPools", Value::List(_)) => all = self.agents(value, marks),
                ("buildkitReplicas", Value::Int(replicas)) => buildkit = Some(*replicas),
                ("controllerImage", _) => self.remark(
                    marks,
                    "controllerImage was the old endpoint's image: podlayer's own is the value image of its chart",
                ),
                // The old operator's own mark.
                ("initialized", _) => {}
                _ => self.remark(marks, format!("{key} has no counterpart in an AgentPool: left out")),
            }
        }
        let mut all = all.into_iter();
        let Some(first) = all.next() else {
            return self.shape(
                spec_marks,
                "agentPools has no entry with a name and a spec, so there is nothing to make agents of",
            );
        };
        let images = self.images(&first, all);
        if first.spec.get("serviceAccountName").is_none() {
            self.remark(
                first.marks,
                "agents ran as the namespace's default account, which the old chart made admin of the namespace: take that \
                 right away; image builds have a Role of their own (docs/azure.md)",
            );
        }
        if self.max.is_none() {
            self.remark(
                spec_marks,
                format!("the old pool had no bound of its own: max is set to {MAX}; --max with the target size of Azure DevOps sets another"),
            );
        }
        let metadata = self.metadata(pool, marks);
        let mut new = Map::new();
        new.insert("mode", text("Agents"));
        new.insert("max", Value::Int(self.max.unwrap_or(MAX)));
        let mut azure = Map::new();
        azure.insert("secretName", text(names::AZURE_SECRET));
        if !images.is_empty() {
            azure.insert("defaultImage", text(first.name));
            azure.insert("images", Value::List(images));
        }
        new.insert("azure", Value::Object(azure));
        if let Some(replicas) = buildkit {
            new.insert("buildkit", object([("replicas", Value::Int(replicas))]));
        }
        new.insert("template", object([("spec", first.spec.clone())]));
        self.imported.pools.push(object([
            ("apiVersion", text("podlayer.dev/v1alpha1")),
            ("kind", text("AgentPool")),
            ("metadata", metadata),
            ("spec", Value::Object(new)),
        ]));
        Ok(())
    }

    fn metadata(&mut self, pool: &Value<'static>, marks: &Marks) -> Value<'static> {
        let old = pool.get("metadata");
        let word = |key: &str| old.and_then(|old| old.get(key)).and_then(Value::as_str);
        let name = word("name").unwrap_or("azure");
        let mut short = name;
        if name.len() > LONGEST_NAME {
            short = name.get(..LONGEST_NAME).unwrap_or(name).trim_end_matches(['-', '.']);
            self.remark(marks, format!("the name {name} has more than {LONGEST_NAME} characters: cut to {short}"));
        }
        let mut metadata = Map::new();
        metadata.insert("name", text(short));
        if let Some(namespace) = word("namespace") {
            metadata.insert("namespace", text(namespace));
        }
        Value::Object(metadata)
    }

    fn agents<'d>(&mut self, value: &'d Value<'static>, marks: &'d Marks) -> Vec<Agents<'d>> {
        let mut all = Vec::new();
        for (item, marks) in value.as_list().unwrap_or_default().iter().zip(&marks.children) {
            match (item.get("name").and_then(Value::as_str), item.get("spec")) {
                (Some(name), Some(spec @ Value::Object(_))) => all.push(Agents { name, spec, marks }),
                _ => self.remark(marks, "an entry of agentPools without a name and a spec: left out"),
            }
        }
        all
    }

    /// The images by their names, if there are several. Only the first entry was ever used.
    fn images<'d>(&mut self, first: &Agents<'d>, others: impl Iterator<Item = Agents<'d>>) -> Vec<Value<'static>> {
        let mut named = Vec::new();
        for other in others {
            match image(other.spec) {
                Some(image) if with_image(first.spec, image).as_ref() == Some(other.spec) => {
                    self.remark(
                        other.marks,
                        format!(
                            "the old provider never used {}: here a pipeline chooses it by `pool: {{image: {}}}`",
                            other.name, other.name
                        ),
                    );
                    named.push((other.name, image));
                }
                _ => self.remark(
                    other.marks,
                    format!(
                        "the old provider never used {}, and more than its image differs: left out; make an AgentPool of it",
                        other.name
                    ),
                ),
            }
        }
        let Some(own) = image(first.spec).filter(|_| !named.is_empty()) else { return Vec::new() };
        named.insert(0, (first.name, own));
        named.into_iter().map(|(name, image)| object([("name", text(name)), ("image", text(image))])).collect()
    }
}

fn text(text: &str) -> Value<'static> {
    Value::from(text.to_owned())
}

/// The image of the first container.
fn image<'d>(spec: &'d Value<'static>) -> Option<&'d str> {
    spec.get("containers")?.as_list()?.first()?.get("image")?.as_str()
}

/// The same with another image.
fn with_image(spec: &Value<'static>, image: &str) -> Option<Value<'static>> {
    let mut spec = spec.clone();
    let containers = spec.as_object_mut()?.get_mut("containers")?.as_list_mut()?;
    containers.first_mut()?.as_object_mut()?.insert("image", text(image));
    Some(spec)
}
