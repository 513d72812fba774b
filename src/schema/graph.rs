//! The type graph of a Pod: which fields there are, of what type, and how a strategic merge treats them.
//!
//! It is data (`pod.json` beside this file), read off the Go types of the API server by reflection, because those
//! types are what the API server and `kubectl patch` merge with. `tests/controlplane schema` prints it anew, and a test
//! compares. In a cluster the fields that its API server knows besides are added once, at the start ([`extend`]).

use std::{
    collections::{BTreeMap, HashMap},
    ops::Deref,
    sync::{LazyLock, OnceLock},
};

use serde::Deserialize;

/// One type of the graph.
#[derive(Clone, Debug)]
pub enum Type {
    /// `true` or `false`.
    Bool,
    /// A whole number of 32 or 64 bits.
    Int(u8),
    /// A map with string keys and values of one type.
    Map(TypeId),
    /// A Go pointer: the same JSON as its target, but the merge tells them apart for lists.
    Ptr(TypeId),
    /// A list with elements of one type.
    Slice(TypeId),
    /// Text, whatever Go calls it (`v1.PullPolicy`…).
    String,
    /// An object with known fields.
    Struct(Struct),
}

/// The fields of one object type.
#[derive(Clone, Debug)]
pub struct Struct {
    /// Go's name without its package, as error texts print it: `PodSpec`.
    pub name: Box<str>,
    /// What JSON this struct really takes, since a few marshal themselves.
    pub form: Form,
    /// The fields with their names in JSON, sorted by those.
    fields: Vec<(Box<str>, Field)>,
    /// [`start`] of each name: they sort as the names do, so a name is found by numbers, and compared once.
    starts: Vec<u64>,
}

/// What a struct looks like in JSON.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Form {
    /// Any JSON at all (`FieldsV1`).
    Anything,
    /// A whole number or a string (`IntOrString`).
    IntOrString,
    /// The object that its fields say.
    Object,
    /// A quantity: a string such as `500m`, or a number (`resource.Quantity`).
    Quantity,
    /// An RFC 3339 time (`metav1.Time`).
    Time,
}

/// One field of an object type.
#[derive(Clone, Debug)]
pub struct Field {
    /// The type of its value.
    pub ty: TypeId,
    /// `patchStrategy` names `merge`.
    pub merge: bool,
    /// `patchMergeKey`, where there is one.
    pub key: Option<Box<str>>,
}

/// A type in the graph; cheap to copy, and always valid, since only [`Graph`] makes it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct TypeId(pub(super) u32);

/// All types reachable from Pod.
#[derive(Clone, Debug)]
pub struct Graph {
    pub(super) types: Vec<Type>,
    names: HashMap<Box<str>, TypeId>,
    /// See [`Graph::values`].
    values: HashMap<TypeId, Vec<Box<str>>>,
}

/// The graph in force: the one that this build carries, or that one with what [`extend`] added.
pub static POD: InForce = InForce(());

/// See [`POD`].
#[derive(Debug)]
pub struct InForce(());

impl Deref for InForce {
    type Target = Graph;

    fn deref(&self) -> &Graph {
        EXTENDED.get().unwrap_or(&BUILT_IN)
    }
}

static EXTENDED: OnceLock<Graph> = OnceLock::new();

/// Puts a graph that [`Graph::with_openapi`] made of the one of this build in force, for the rest of the process. Says
/// whether it did: only the first counts. Types keep their ids, so what was read before stays right.
pub fn extend(graph: Graph) -> bool {
    EXTENDED.set(graph).is_ok()
}

static BUILT_IN: LazyLock<Graph> = LazyLock::new(|| {
    // INVARIANT: the file is part of the build and a test reads it, so it can't be wrong at run time.
    #[allow(clippy::expect_used)]
    Graph::parse(include_str!("pod.json")).expect("src/schema/pod.json is a type graph")
});

/// Why a type graph can't be read.
#[derive(Debug, thiserror::Error)]
pub enum GraphError {
    /// The file isn't JSON of the expected shape.
    #[error("failed to read the type graph")]
    Read(#[source] serde_json::Error),
    /// A type names another that isn't there.
    #[error("type {from} names {to}, which the graph lacks")]
    Dangling {
        /// The type that names it.
        from: String,
        /// The name that isn't there.
        to: String,
    },
    /// A kind of type that podlayer doesn't know.
    #[error("type {name} is of the unknown kind {kind}")]
    Kind {
        /// The type.
        name: String,
        /// What its `kind` says.
        kind: String,
    },
}

#[derive(Deserialize)]
struct RawType {
    kind: String,
    #[serde(default)]
    elem: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    values: Vec<Box<str>>,
    #[serde(default)]
    fields: BTreeMap<String, RawField>,
}

#[derive(Deserialize)]
struct RawField {
    t: String,
    #[serde(default)]
    s: String,
    #[serde(default)]
    k: Option<String>,
}

impl Graph {
    /// Reads a graph from its JSON form: type name → `{kind, elem | values | name, fields: {field: {t, s,
    /// k}}}`.
    ///
    /// # Errors
    /// [`GraphError`] where the text isn't such JSON, or names a type that it doesn't hold.
    pub fn parse(text: &str) -> Result<Self, GraphError> {
        let raw: HashMap<String, RawType> = serde_json::from_str(text).map_err(GraphError::Read)?;
        let mut names: Vec<&String> = raw.keys().collect();
        names.sort();
        let ids: HashMap<Box<str>, TypeId> =
            names.iter().zip(0u32..).map(|(name, id)| (name.as_str().into(), TypeId(id))).collect();
        let find = |from: &str, to: &str| {
            ids.get(to).copied().ok_or_else(|| GraphError::Dangling { from: from.into(), to: to.into() })
        };
        let types = names
            .iter()
            .map(|name| {
                let ty = &raw[*name];
                Ok(match ty.kind.as_str() {
                    "bool" => Type::Bool,
                    "int32" => Type::Int(32),
                    "int64" => Type::Int(64),
                    "string" => Type::String,
                    "map" => Type::Map(find(name, &ty.elem)?),
                    "ptr" => Type::Ptr(find(name, &ty.elem)?),
                    "slice" => Type::Slice(find(name, &ty.elem)?),
                    "struct" => {
                        let field = |(field, raw): (&String, &RawField)| {
                            let merge = raw.s.split(',').any(|s| s == "merge");
                            let key = raw.k.as_deref().map(Into::into);
                            Ok((field.as_str().into(), Field { ty: find(name, &raw.t)?, merge, key }))
                        };
                        let fields = ty.fields.iter().map(field).collect::<Result<Vec<_>, GraphError>>()?;
                        Type::Struct(Struct::new(&ty.name, Form::of(name), fields))
                    }
                    kind => return Err(GraphError::Kind { name: (*name).clone(), kind: kind.into() }),
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        let listed = |name: &&String| (ids[name.as_str()], raw[*name].values.clone());
        let values = names.iter().map(listed).filter(|(_, values)| !values.is_empty()).collect();
        Ok(Self { types, names: ids, values })
    }

    /// The type that an id stands for.
    pub fn ty(&self, id: TypeId) -> &Type {
        &self.types[id.0 as usize]
    }

    /// The type behind an id, with any pointers followed.
    pub fn target(&self, mut id: TypeId) -> (TypeId, &Type) {
        while let Type::Ptr(to) = self.ty(id) {
            id = *to;
        }
        (id, self.ty(id))
    }

    /// The values that a type of text may have, sorted, where the API server doesn't take just any; one that ends in a
    /// dash stands for all that start with it. A newer API server may take more.
    pub fn values(&self, id: TypeId) -> Option<&[Box<str>]> {
        self.values.get(&self.target(id).0).map(Vec::as_slice)
    }

    /// A type by Go's name: `v1.PodSpec`.
    pub fn named(&self, name: &str) -> Option<TypeId> {
        self.names.get(name).copied()
    }

    /// `v1.Pod`.
    pub fn pod(&self) -> TypeId {
        self.root("v1.Pod")
    }

    /// `v1.PodSpec`, where every layer's patch starts.
    pub fn pod_spec(&self) -> TypeId {
        self.root("v1.PodSpec")
    }

    fn root(&self, name: &str) -> TypeId {
        // INVARIANT: a test checks both roots in the graph that this build carries.
        #[allow(clippy::expect_used)]
        self.named(name).expect("the graph holds Pod and PodSpec")
    }
}

impl Field {
    /// The key by which a strategic merge tells the items of this list apart; none for lists that it replaces whole.
    pub fn list_key(&self) -> Option<&str> {
        self.key.as_deref().filter(|_| self.merge)
    }
}

impl Struct {
    pub(super) fn new(name: &str, form: Form, fields: Vec<(Box<str>, Field)>) -> Self {
        let mut new = Self { name: name.into(), form, fields: Vec::new(), starts: Vec::new() };
        new.extend(fields);
        new
    }

    /// Adds fields that it lacks.
    pub(super) fn extend(&mut self, fields: Vec<(Box<str>, Field)>) {
        self.fields.extend(fields);
        self.fields.sort_by(|a, b| a.0.cmp(&b.0));
        self.starts = self.fields.iter().map(|(name, _)| start(name)).collect();
    }

    /// The fields with their names, sorted by those.
    pub(super) fn fields(&self) -> &[(Box<str>, Field)] {
        &self.fields
    }

    /// The field of this exact JSON name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        let wanted = start(name);
        let first = self.starts.partition_point(|start| *start < wanted);
        let alike = self.starts[first..].iter().take_while(|start| **start == wanted).zip(&self.fields[first..]);
        alike.map(|(_, field)| field).find(|(known, _)| **known == *name).map(|(_, field)| field)
    }

    /// The field of this name, or failing that the first (in byte order of the names) that differs only in case, as
    /// Go's own lookup does.
    pub fn field_ignoring_case(&self, name: &str) -> Option<&Field> {
        let folded = || self.fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, field)| field);
        self.field(name).or_else(folded)
    }

    /// All field names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(name, _)| name.as_ref())
    }
}

/// The first eight bytes of a name as a number.
fn start(name: &str) -> u64 {
    let eight = name.as_bytes().first_chunk().copied().unwrap_or_else(|| {
        let mut short = [0; 8];
        short.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
        short
    });
    u64::from_be_bytes(eight)
}

impl Form {
    fn of(name: &str) -> Self {
        match name {
            "intstr.IntOrString" => Self::IntOrString,
            "resource.Quantity" => Self::Quantity,
            "v1.FieldsV1" => Self::Anything,
            "v1.MicroTime" | "v1.Time" => Self::Time,
            _ => Self::Object,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_graph_of_this_build_has_its_roots_and_merge_keys() {
        let Type::Struct(spec) = POD.ty(POD.pod_spec()) else { panic!("PodSpec is a struct") };
        assert_eq!((spec.name.as_ref(), spec.form), ("PodSpec", Form::Object));
        let containers = spec.field("containers").unwrap();
        assert!(containers.merge);
        assert_eq!(containers.key.as_deref(), Some("name"));
        assert!(spec.field("Containers").is_none());
        assert!(spec.field_ignoring_case("Containers").is_some());
        assert!(spec.names().all(|name| spec.field(name).is_some()));
        for none in ["", "container", "containerss", "initContainer\0", "zzz"] {
            assert!(spec.field(none).is_none(), "{none:?}");
        }
        let Type::Struct(pod) = POD.ty(POD.pod()) else { panic!("Pod is a struct") };
        assert!(pod.field("metadata").is_some());
        let values = |name: &str| POD.values(spec.field(name).unwrap().ty).map(|values| values.concat());
        assert_eq!(values("restartPolicy").as_deref(), Some("AlwaysNeverOnFailure"));
        assert_eq!(values("preemptionPolicy").as_deref(), Some("NeverPreemptLowerPriority"));
        assert_eq!(values("hostname"), None);
    }

    #[test]
    fn a_graph_with_a_hole_is_refused() {
        let error = Graph::parse(r#"{"a": {"kind": "ptr", "elem": "b"}}"#).unwrap_err();
        assert_eq!(error.to_string(), "type a names b, which the graph lacks");
    }
}
