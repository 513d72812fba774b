//! What an API server's OpenAPI knows of pods beyond this build: fields of newer versions of Kubernetes.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::graph::{Field, Form, Graph, Struct, Type, TypeId};

/// Why an OpenAPI document adds nothing.
#[derive(Debug, thiserror::Error)]
pub enum OpenApiError {
    /// It has no definition of Pod.
    #[error("the API server's OpenAPI has no {POD}")]
    NoPod,
    /// It isn't an OpenAPI document of version 3.
    #[error("the API server's OpenAPI can't be read")]
    Read(#[source] serde_json::Error),
}

const POD: &str = "io.k8s.api.core.v1.Pod";
const REFERENCE: &str = "#/components/schemas/";

/// How many definitions may be nested that this build doesn't know; what is deeper may hold anything.
const DEEPEST: usize = 32;

#[derive(Deserialize)]
struct Document<'t> {
    #[serde(borrow)]
    components: Components<'t>,
}

/// Each definition as its text: of some megabytes only what pods are made of is read.
#[derive(Deserialize)]
struct Components<'t> {
    #[serde(borrow)]
    schemas: HashMap<String, &'t RawValue>,
}

#[derive(Deserialize)]
struct Schema {
    #[serde(default, rename = "type")]
    kind: Word,
    #[serde(default)]
    format: Word,
    #[serde(default, rename = "$ref")]
    reference: Option<String>,
    #[serde(default, rename = "allOf")]
    all_of: Vec<Self>,
    #[serde(default)]
    properties: BTreeMap<String, Self>,
    #[serde(default)]
    items: Option<Box<Self>>,
    #[serde(default, rename = "additionalProperties")]
    values: Values,
    #[serde(default, rename = "x-kubernetes-patch-strategy")]
    strategy: String,
    #[serde(default, rename = "x-kubernetes-patch-merge-key")]
    key: Option<String>,
}

/// A word, or something that says nothing to us.
#[derive(Default, Deserialize)]
#[serde(untagged)]
enum Word {
    Text(String),
    Other(serde::de::IgnoredAny),
    #[default]
    Absent,
}

#[derive(Default, Deserialize)]
#[serde(untagged)]
enum Values {
    Schema(Box<Schema>),
    Other(serde::de::IgnoredAny),
    #[default]
    Absent,
}

impl Word {
    fn text(&self) -> &str {
        if let Self::Text(text) = self { text } else { "" }
    }
}

impl Schema {
    /// The definition that it stands for, if it is a reference.
    fn target(&self) -> Option<&str> {
        let reference = self.reference.as_deref().or_else(|| self.all_of.first()?.reference.as_deref());
        reference?.strip_prefix(REFERENCE)
    }

    fn values(&self) -> Option<&Self> {
        if let Values::Schema(schema) = &self.values { Some(schema) } else { None }
    }

    /// The names of the definitions that it refers to.
    fn targets(&self, out: &mut Vec<String>) {
        out.extend(self.target().map(str::to_owned));
        let parts = self.properties.values().chain(self.items.as_deref()).chain(self.values());
        parts.for_each(|part| part.targets(out));
    }
}

/// The definitions that pods are made of.
fn reachable(document: &Document<'_>) -> Result<HashMap<String, Schema>, OpenApiError> {
    let mut schemas = HashMap::new();
    let mut open = vec![POD.to_owned()];
    while let Some(name) = open.pop() {
        let Some(text) = document.components.schemas.get(&name).filter(|_| !schemas.contains_key(&name)) else {
            continue;
        };
        let schema: Schema = serde_json::from_str(text.get()).map_err(OpenApiError::Read)?;
        schema.targets(&mut open);
        schemas.insert(name, schema);
    }
    Ok(schemas)
}

impl Graph {
    /// This graph with the fields that an API server knows besides (its answer to `/openapi/v3/api/v1`), and how many
    /// those are. What the graph has already stays as it is, whatever the document says about it: this build was tested
    /// with it, and merging by another key would be another product.
    ///
    /// # Errors
    /// [`OpenApiError`] where the document can't be read.
    pub fn with_openapi(&self, text: &str) -> Result<(Self, usize), OpenApiError> {
        let document: Document<'_> = serde_json::from_str(text).map_err(OpenApiError::Read)?;
        let schemas = reachable(&document)?;
        if !schemas.contains_key(POD) {
            return Err(OpenApiError::NoPod);
        }
        let mut merge = Merge { graph: self.clone(), schemas: &schemas, known: BTreeMap::new(), depth: 0 };
        merge.pair(POD, self.pod());
        let added = merge.add();
        Ok((merge.graph, added))
    }
}

struct Merge<'d> {
    graph: Graph,
    schemas: &'d HashMap<String, Schema>,
    /// Which type each definition is.
    known: BTreeMap<&'d str, TypeId>,
    depth: usize,
}

impl<'d> Merge<'d> {
    /// Finds out which definitions the types of this build are, along the fields that both have.
    fn pair(&mut self, name: &'d str, ty: TypeId) {
        let (id, target) = self.graph.target(ty);
        if self.known.contains_key(name) {
            return;
        }
        self.known.insert(name, id);
        let (Type::Struct(owner), Some(schema)) = (target, self.schemas.get(name)) else { return };
        if owner.form != Form::Object {
            return;
        }
        let fields = owner.fields().iter();
        let both: Vec<(TypeId, &Schema)> =
            fields.filter_map(|(name, field)| Some((field.ty, schema.properties.get(name.as_ref())?))).collect();
        for (ty, property) in both {
            self.pair_value(ty, property);
        }
    }

    /// The same for a value, through lists and maps.
    fn pair_value(&mut self, ty: TypeId, schema: &'d Schema) {
        match self.graph.target(ty).1 {
            Type::Slice(elem) => {
                let elem = *elem;
                if let Some(items) = &schema.items {
                    self.pair_value(elem, items);
                }
            }
            Type::Map(elem) => {
                let elem = *elem;
                if let Some(values) = schema.values() {
                    self.pair_value(elem, values);
                }
            }
            Type::Struct(_) => {
                if let Some(name) = schema.target() {
                    self.pair(name, ty);
                }
            }
            Type::Bool | Type::Int(_) | Type::Ptr(_) | Type::String => {}
        }
    }

    /// Adds to each type what its definition has besides.
    fn add(&mut self) -> usize {
        let pairs: Vec<(&str, TypeId)> = self.known.iter().map(|(name, id)| (*name, *id)).collect();
        let mut added = 0;
        for (name, id) in pairs {
            let (Some(schema), Type::Struct(ty)) = (self.schemas.get(name), self.graph.ty(id)) else { continue };
            if ty.form != Form::Object {
                continue;
            }
            let new: Vec<(&String, &Schema)> =
                schema.properties.iter().filter(|(name, _)| ty.field(name).is_none()).collect();
            added += new.len();
            let new: Vec<(Box<str>, Field)> = new.into_iter().map(|(name, schema)| self.field(name, schema)).collect();
            if let Some(Type::Struct(ty)) = self.graph.types.get_mut(id.0 as usize) {
                ty.extend(new);
            }
        }
        added
    }

    fn field(&mut self, name: &str, schema: &'d Schema) -> (Box<str>, Field) {
        let merge = schema.strategy.split(',').any(|part| part == "merge");
        let key = schema.key.as_deref().map(Into::into);
        (name.into(), Field { ty: self.type_of(schema), merge, key })
    }

    fn type_of(&mut self, schema: &'d Schema) -> TypeId {
        if let Some(name) = schema.target() {
            return self.definition(name);
        }
        let ty = match (schema.kind.text(), schema.format.text()) {
            ("boolean", _) => Type::Bool,
            ("integer", "int64") => Type::Int(64),
            ("integer", _) => Type::Int(32),
            ("string", "int-or-string") => named("IntOrString", Form::IntOrString, Vec::new()),
            ("string", "date-time") => named("Time", Form::Time, Vec::new()),
            ("string", _) => Type::String,
            ("array", _) => match &schema.items {
                Some(items) => Type::Slice(self.type_of(items)),
                None => anything(),
            },
            ("object", _) => match schema.values() {
                Some(values) => Type::Map(self.type_of(values)),
                None if schema.properties.is_empty() => anything(),
                None => named("object", Form::Object, self.fields(schema)),
            },
            _ => anything(),
        };
        self.push(ty)
    }

    /// The type of a definition, made the first time that it is asked for.
    fn definition(&mut self, name: &'d str) -> TypeId {
        if let Some(id) = self.known.get(name) {
            return *id;
        }
        let id = self.push(anything());
        self.known.insert(name, id);
        let (Some(schema), true) = (self.schemas.get(name), self.depth < DEEPEST) else { return id };
        self.depth += 1;
        let ty = if schema.properties.is_empty() {
            let inner = self.type_of(schema);
            self.graph.ty(inner).clone()
        } else {
            let short = name.rsplit('.').next().unwrap_or(name);
            named(short, Form::Object, self.fields(schema))
        };
        self.depth -= 1;
        self.graph.types[id.0 as usize] = ty;
        id
    }

    fn fields(&mut self, schema: &'d Schema) -> Vec<(Box<str>, Field)> {
        // In the order of their names, as the map has them.
        schema.properties.iter().map(|(name, schema)| self.field(name, schema)).collect()
    }

    fn push(&mut self, ty: Type) -> TypeId {
        // INVARIANT: a document of some megabytes has no four billion types.
        let id = TypeId(u32::try_from(self.graph.types.len()).unwrap_or(u32::MAX));
        self.graph.types.push(ty);
        id
    }
}

fn named(name: &str, form: Form, fields: Vec<(Box<str>, Field)>) -> Type {
    Type::Struct(Struct::new(name, form, fields))
}

fn anything() -> Type {
    named("object", Form::Anything, Vec::new())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{super::POD as IN_FORCE, *};

    fn document(spec: Value, container: Value, more: Value) -> String {
        let mut schemas = json!({
            POD: {"type": "object", "properties": {"spec": {"allOf": [{"$ref": "#/components/schemas/Spec"}], "default": {}}}},
            "Spec": {"type": "object", "properties": {"containers": {"type": "array",
                "items": {"allOf": [{"$ref": "#/components/schemas/Container"}], "default": {}},
                "x-kubernetes-patch-merge-key": "image", "x-kubernetes-patch-strategy": "merge"}}},
            "Container": {"type": "object", "properties": {"name": {"type": "integer"}}},
        });
        let add = |into: &mut Value, from: Value| {
            into.as_object_mut().unwrap().extend(from.as_object().unwrap().clone());
        };
        add(&mut schemas["Spec"]["properties"], spec);
        add(&mut schemas["Container"]["properties"], container);
        add(&mut schemas, more);
        json!({"openapi": "3.0.0", "components": {"schemas": schemas}}).to_string()
    }

    fn object(graph: &Graph, id: TypeId) -> &Struct {
        let Type::Struct(ty) = graph.target(id).1 else { panic!("no struct") };
        ty
    }

    #[test]
    fn newer_fields_are_known_with_their_types_and_how_they_merge() {
        let text = document(
            json!({"futures": {"type": "array", "items": {"$ref": "#/components/schemas/a.b.Future"},
                               "x-kubernetes-patch-strategy": "merge,retainKeys", "x-kubernetes-patch-merge-key": "name"}}),
            json!({"futurePort": {"type": "string", "format": "int-or-string"}, "futureMap": {"type": "object",
                   "additionalProperties": {"type": "string"}}, "odd": {"type": ["string", "null"]}}),
            json!({"a.b.Future": {"type": "object", "properties": {"name": {"type": "string"}, "deep": {"type": "boolean"},
                   "next": {"$ref": "#/components/schemas/a.b.Future"}, "box": {"$ref": "#/components/schemas/Container"}}}}),
        );
        let (graph, added) = IN_FORCE.with_openapi(&text).unwrap();
        assert_eq!(added, 4);
        let spec = object(&graph, graph.pod_spec());
        let futures = spec.field("futures").unwrap();
        assert_eq!(futures.list_key(), Some("name"));
        let Type::Slice(future) = graph.ty(futures.ty) else { panic!("a list") };
        let fields = object(&graph, *future);
        assert_eq!((fields.name.as_ref(), fields.form), ("Future", Form::Object));
        assert!(matches!(graph.ty(fields.field("deep").unwrap().ty), Type::Bool));
        assert_eq!(graph.target(fields.field("next").unwrap().ty).0, *future, "a type may hold itself");
        let container = object(&graph, fields.field("box").unwrap().ty);
        assert_eq!(container.name.as_ref(), "Container", "the type that this build has");
        assert_eq!(object(&graph, container.field("futurePort").unwrap().ty).form, Form::IntOrString);
        assert!(matches!(graph.ty(container.field("futureMap").unwrap().ty), Type::Map(_)));
        assert_eq!(object(&graph, container.field("odd").unwrap().ty).form, Form::Anything);
    }

    #[test]
    fn what_this_build_has_stays_whatever_the_document_says() {
        let text = document(json!({}), json!({}), json!({}));
        let (graph, added) = IN_FORCE.with_openapi(&text).unwrap();
        assert_eq!(added, 0);
        let spec = object(&graph, graph.pod_spec());
        assert_eq!(spec.field("containers").unwrap().list_key(), Some("name"));
        assert!(spec.field("nodeName").is_some());
    }

    #[test]
    fn a_document_without_pods_adds_nothing() {
        for (text, wanted) in [
            ("{}", "can't be read"),
            ("nonsense", "can't be read"),
            (r#"{"components": {"schemas": {}}}"#, "has no io.k8s.api.core.v1.Pod"),
        ] {
            let error = IN_FORCE.with_openapi(text).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
