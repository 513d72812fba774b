//! The patch of a PodSpec as JSON Schema, so that a tool that knows nothing of podlayer (Helm, an editor) finds unknown
//! fields and wrong types before podlayer sees them.
//!
//! It is a coarser sieve than [`super::check`]: it knows names and types, the directives of a strategic merge and which
//! items need their merge key, and neither places nor nearest names.

use serde_json::{Map, Value, json};

use super::{Field, Form, Graph, Struct, Type, TypeId};

/// What a layer's patch may not hold, though a pod may: it has its own subresource.
const REFUSED: &[&str] = &["ephemeralContainers"];

/// What [`super::Quantity`] reads, as a pattern.
const QUANTITY: &str = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$";

/// The `$defs` of every object type that a patch of a PodSpec can hold, by Go's name of the type; the patch itself is
/// `PodSpec`. References are of the form `#/$defs/NAME`, JSON Schema 2020-12.
pub fn patch_definitions(graph: &Graph) -> Map<String, Value> {
    let mut definitions = Definitions { graph, written: Map::new() };
    definitions.reference(graph.pod_spec());
    definitions.written
}

struct Definitions<'g> {
    graph: &'g Graph,
    written: Map<String, Value>,
}

impl Definitions<'_> {
    /// The schema of a value of this type. `null` deletes a field, so it fits everywhere.
    fn reference(&mut self, id: TypeId) -> Value {
        let graph = self.graph;
        match graph.target(id).1 {
            Type::Bool => json!({"type": ["boolean", "null"]}),
            Type::Int(32) => json!({"type": ["integer", "null"], "minimum": i32::MIN, "maximum": i32::MAX}),
            Type::Int(_) => json!({"type": ["integer", "null"]}),
            Type::String => json!({"type": ["string", "null"]}),
            Type::Map(element) => {
                let element = self.reference(*element);
                json!({"type": ["object", "null"], "additionalProperties": element, "properties": directives()})
            }
            Type::Slice(element) => {
                let element = self.reference(*element);
                json!({"type": ["array", "null"], "items": element})
            }
            Type::Struct(ty) => match ty.form {
                Form::Anything => json!({}),
                Form::IntOrString => json!({"type": ["integer", "string", "null"]}),
                Form::Quantity => json!({"type": ["string", "number", "null"], "pattern": QUANTITY}),
                Form::Time => json!({"type": ["string", "null"]}),
                Form::Object => {
                    self.define(ty);
                    json!({"$ref": format!("#/$defs/{}", ty.name)})
                }
            },
            // INVARIANT: `target` follows pointers to their end.
            Type::Ptr(_) => json!({}),
        }
    }

    fn define(&mut self, ty: &Struct) {
        if self.written.contains_key(ty.name.as_ref()) {
            return;
        }
        // Before its fields: a type may hold itself.
        self.written.insert(ty.name.to_string(), Value::Null);
        let mut properties = directives();
        for name in ty.names().filter(|name| !REFUSED.contains(name)) {
            let Some(field) = ty.field(name) else { continue };
            properties.insert(name.to_owned(), self.field(field));
            if let Type::Slice(element) = self.graph.target(field.ty).1 {
                properties.insert(format!("$setElementOrder/{name}"), json!({"type": "array"}));
                if !self.is_object(*element) {
                    properties.insert(format!("$deleteFromPrimitiveList/{name}"), json!({"type": ["array", "null"]}));
                }
            }
        }
        let definition = json!({"type": ["object", "null"], "additionalProperties": false, "properties": properties});
        self.written.insert(ty.name.to_string(), definition);
    }

    fn field(&mut self, field: &Field) -> Value {
        let mut schema = self.reference(field.ty);
        if let Some(key) = field.list_key() {
            // An item names the one that it is merged with, but for the marker that replaces the list.
            let named = json!([{"required": [key]}, {"required": ["$patch"]}]);
            let item = schema["items"].take();
            schema["items"] = json!({"allOf": [item], "anyOf": named});
        }
        schema
    }

    fn is_object(&self, id: TypeId) -> bool {
        matches!(self.graph.target(id).1, Type::Struct(Struct { form: Form::Object, .. }))
    }
}

/// What may stand in every object.
fn directives() -> Map<String, Value> {
    let retained = json!({"type": "array", "items": {"type": "string"}});
    Map::from_iter([
        ("$patch".to_owned(), json!({"enum": ["replace", "delete"]})),
        ("$retainKeys".to_owned(), retained),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::POD;

    #[test]
    fn every_reference_leads_to_a_closed_definition() {
        let definitions = patch_definitions(&POD);
        let text = Value::Object(definitions.clone()).to_string();
        for reference in text.split("\"#/$defs/").skip(1) {
            let name = reference.split('"').next().unwrap_or_default();
            assert!(definitions.contains_key(name), "{name}");
        }
        for (name, definition) in &definitions {
            assert_eq!(definition["additionalProperties"], false, "{name}");
        }
        assert!(definitions.contains_key("PodSpec") && definitions.contains_key("Container"));
        assert!(!definitions.contains_key("EphemeralContainer"), "layers can't add them");
    }

    #[test]
    fn lists_know_their_directives_and_their_merge_key() {
        let definitions = patch_definitions(&POD);
        let spec = &definitions["PodSpec"]["properties"];
        assert_eq!(spec["containers"]["items"]["anyOf"][0], json!({"required": ["name"]}));
        assert!(spec.get("$setElementOrder/containers").is_some());
        assert!(spec.get("$deleteFromPrimitiveList/containers").is_none());
        assert!(spec.get("ephemeralContainers").is_none());
        let metadata = &definitions["Container"]["properties"];
        assert_eq!(metadata["stdin"], json!({"type": ["boolean", "null"]}));
        assert!(definitions["Capabilities"]["properties"].get("$deleteFromPrimitiveList/add").is_some());
    }

    #[test]
    fn two_types_of_one_name_would_hide_each_other() {
        // `define` goes by Go's name without its package: each must be the only one of its name.
        let mut seen = std::collections::HashMap::new();
        let mut waiting = vec![POD.pod_spec()];
        while let Some(id) = waiting.pop() {
            let (id, ty) = POD.target(id);
            match ty {
                Type::Map(element) | Type::Slice(element) => waiting.push(*element),
                Type::Struct(ty) if ty.form == Form::Object => match seen.insert(ty.name.clone(), id) {
                    None => waiting.extend(ty.names().filter_map(|name| ty.field(name)).map(|field| field.ty)),
                    Some(other) => assert_eq!(other, id, "two types are named {}", ty.name),
                },
                _ => {}
            }
        }
        assert!(seen.len() > 50);
    }
}
