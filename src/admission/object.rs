use std::{borrow::Cow, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::value::RawValue;

use crate::{
    layers::Facts,
    names,
    value::{Map, Reader, Value},
};

/// What is read of a pod, or of a pod template: labels, annotations and the spec. The rest (managedFields, status…) is
/// never parsed, so it can't be changed either.
#[derive(Clone, Debug)]
pub struct Pod<'a> {
    /// `{metadata: {labels, annotations}, spec}`, each only where the object has it.
    pub value: Value<'a>,
    /// Where this stands in the object that was sent, as a JSON pointer: empty for a pod.
    pub pointer: &'static str,
    /// Whether the Job controller made it, or will.
    pub of_job: bool,
    /// `name`, or `generateName` where there is none; for logs.
    pub name: Cow<'a, str>,
}

/// A Job and its pod template.
#[derive(Clone, Debug)]
pub struct Template<'a> {
    /// The template, as the pod that it makes.
    pub pod: Pod<'a>,
    /// Whether the Job itself carries a step patch, where nobody reads it.
    pub misplaced_step: bool,
}

/// Why an object can't be read.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// It isn't JSON of the expected shape.
    #[error("failed to read the {kind}: {source}")]
    Read {
        /// What was expected.
        kind: &'static str,
        /// serde_json's word.
        source: serde_json::Error,
    },
    /// The request carries none.
    #[error("the request has no object")]
    Missing,
}

impl ObjectError {
    /// For the log: what can't be read and where, without the words that stand there.
    pub fn whereabouts(&self) -> String {
        match self {
            Self::Read { kind, source } => {
                format!("failed to read the {kind} at line {} column {}", source.line(), source.column())
            }
            Self::Missing => self.to_string(),
        }
    }
}

/// What is an object on the wire, and nothing else: serde reads a list for one, too, by the order of the fields.
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }
        deserializer.deserialize_map(Fields(PhantomData)).map(Self)
    }
}

#[derive(Default, Deserialize)]
struct RawPod<'a> {
    #[serde(borrow)]
    metadata: Option<Object<RawMetadata<'a>>>,
    #[serde(borrow)]
    spec: Option<Value<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawMetadata<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    generate_name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    labels: Option<Value<'a>>,
    #[serde(borrow)]
    annotations: Option<Value<'a>>,
    #[serde(borrow, deserialize_with = "raw")]
    owner_references: Option<&'a str>,
}

/// A value as it stands; nothing for null.
pub(super) fn raw<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de str>, D::Error> {
    Option::<&RawValue>::deserialize(deserializer).map(|found| found.map(RawValue::get))
}

#[derive(Deserialize)]
struct RawJob<'a> {
    #[serde(borrow)]
    metadata: Option<Object<RawMetadata<'a>>>,
    #[serde(borrow)]
    spec: Option<Object<RawJobSpec<'a>>>,
}

#[derive(Deserialize)]
struct RawJobSpec<'a> {
    #[serde(borrow)]
    template: Option<Object<RawPod<'a>>>,
}

#[derive(Deserialize)]
struct Owner<'a> {
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
    #[serde(default)]
    controller: Option<bool>,
}

impl<'a> Pod<'a> {
    /// Reads a pod.
    ///
    /// # Errors
    /// [`ObjectError`] where the text isn't an object with `metadata` and `spec` of the usual shape.
    pub fn parse(text: &'a str) -> Result<Self, ObjectError> {
        let mut reader = Reader::new(text);
        let raw = RawPod::read(&mut reader).filter(|_| reader.is_at_end());
        let raw = raw.map_or_else(|| serde_json::from_str(text).map(|Object(pod)| pod), Ok);
        let raw: RawPod<'a> = raw.map_err(|source| ObjectError::Read { kind: "pod", source })?;
        Ok(Self::of(raw, "", false))
    }

    /// Reads the pod that a reader stands before; nothing where [`Pod::parse`] has to look at it.
    pub(super) fn read(reader: &mut Reader<'a>) -> Option<Self> {
        RawPod::read(reader).map(|raw| Self::of(raw, "", false))
    }

    fn of(raw: RawPod<'a>, pointer: &'static str, of_job: bool) -> Self {
        let mut value = Map::with_capacity(2);
        let (mut of_job, mut name) = (of_job, Cow::Borrowed(""));
        if let Some(Object(metadata)) = raw.metadata {
            let mut kept = Map::with_capacity(2);
            of_job = of_job || metadata.of_job();
            name = metadata.name.filter(|name| !name.is_empty()).or(metadata.generate_name).unwrap_or_default();
            for (key, part) in [("labels", metadata.labels), ("annotations", metadata.annotations)] {
                if let Some(part) = part {
                    kept.insert(key, part);
                }
            }
            value.insert("metadata", Value::Object(kept));
        }
        if let Some(spec) = raw.spec {
            value.insert("spec", spec);
        }
        Self { value: Value::Object(value), pointer, of_job, name }
    }

    /// What layers are matched against.
    pub fn facts<'p>(&'p self, namespace: &'p str) -> Facts<'p> {
        facts(&self.value, namespace)
    }
}

/// What layers are matched against, of a pod's value as it stands.
pub(super) fn facts<'p>(pod: &'p Value<'_>, namespace: &'p str) -> Facts<'p> {
    let part = |key: &str| pod.get("metadata").and_then(|metadata| metadata.get(key)).and_then(Value::as_object);
    Facts { namespace, labels: part("labels"), annotations: part("annotations") }
}

/// The name that the API server makes a pod's name from; a Job's pods have no other yet.
pub(super) fn generate_name(object: &str) -> Cow<'_, str> {
    let mut found = None;
    let mut object = Reader::new(object);
    // Where the reader gives up there is no name: this is for the log only.
    let _ = object.fields(|object, key| match key {
        "metadata" => object.fields(|metadata, key| match key {
            "generateName" => {
                found = Some(metadata.text()?);
                Some(())
            }
            _ => metadata.skip(),
        }),
        _ => object.skip(),
    });
    found.unwrap_or_default()
}

impl<'a> Template<'a> {
    /// Reads a Job; one without a template is none of ours.
    ///
    /// # Errors
    /// [`ObjectError`] where the text isn't a Job of the usual shape.
    pub fn parse(text: &'a str) -> Result<Option<Self>, ObjectError> {
        let Object(raw): Object<RawJob<'a>> =
            serde_json::from_str(text).map_err(|source| ObjectError::Read { kind: "Job", source })?;
        let Some(template) = raw.spec.and_then(|spec| spec.0.template) else { return Ok(None) };
        let annotation = |annotations: &Value<'_>| annotations.get(names::STEP_PATCH).is_some();
        let on_job = raw.metadata.and_then(|metadata| metadata.0.annotations).as_ref().is_some_and(annotation);
        let pod = Pod::of(template.0, "/spec/template", true);
        let misplaced_step = on_job && pod.facts("").annotation(names::STEP_PATCH).is_none();
        Ok(Some(Self { pod, misplaced_step }))
    }
}

/// What [`Reader`] gives up on, and all that isn't as usual, is left to serde_json.
impl<'a> RawPod<'a> {
    fn read(reader: &mut Reader<'a>) -> Option<Self> {
        let mut pod = Self::default();
        reader.fields(|reader, key| match key {
            "metadata" => once(&mut pod.metadata, RawMetadata::read(reader).map(Object)),
            "spec" => once(&mut pod.spec, object(reader)),
            _ => reader.skip(),
        })?;
        Some(pod)
    }
}

impl<'a> RawMetadata<'a> {
    fn read(reader: &mut Reader<'a>) -> Option<Self> {
        let mut metadata = Self::default();
        reader.fields(|reader, key| match key {
            "name" => once(&mut metadata.name, reader.text()),
            "generateName" => once(&mut metadata.generate_name, reader.text()),
            "labels" => once(&mut metadata.labels, object(reader)),
            "annotations" => once(&mut metadata.annotations, object(reader)),
            "ownerReferences" => once(&mut metadata.owner_references, reader.raw()),
            _ => reader.skip(),
        })?;
        Some(metadata)
    }
}

fn object<'a>(reader: &mut Reader<'a>) -> Option<Value<'a>> {
    reader.value().filter(|value| value.as_object().is_some())
}

/// Keeps what was read; gives up on a field that comes twice.
pub(super) fn once<T>(slot: &mut Option<T>, read: Option<T>) -> Option<()> {
    let is_first = slot.is_none();
    *slot = Some(read?);
    is_first.then_some(())
}

impl RawMetadata<'_> {
    fn of_job(&self) -> bool {
        let labelled = self.labels.as_ref().is_some_and(|labels| labels.get(names::JOB_NAME).is_some());
        labelled
            || self.owner_references.is_some_and(|raw| {
                let owners = serde_json::from_str::<Vec<Owner<'_>>>(raw).unwrap_or_default();
                owners.iter().any(|owner| owner.kind == "Job" && owner.controller == Some(true))
            })
    }
}
