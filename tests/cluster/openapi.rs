//! The field tree of this build against the API server's own word.

use podlayer::schema::{Form, POD, Type, TypeId};
use serde_json::Value;

use crate::controlplane::ControlPlane;

/// Compares one object type with its OpenAPI definition; goes on into the types of its fields.
fn compare(
    definitions: &Value,
    definition: &str,
    ty: TypeId,
    path: &str,
    seen: &mut Vec<String>,
    wrong: &mut Vec<String>,
) {
    if seen.iter().any(|known| known == definition) {
        return;
    }
    seen.push(definition.to_owned());
    let Type::Struct(fields) = POD.target(ty).1 else { return };
    let Some(properties) = definitions[definition]["properties"].as_object() else { return };
    for name in fields.names().filter(|name| !properties.contains_key(*name)) {
        wrong.push(format!("{path}.{name}: the API server lacks it"));
    }
    for (name, property) in properties {
        let Some(field) = fields.field(name) else {
            wrong.push(format!("{path}.{name}: this build lacks it"));
            continue;
        };
        let strategy = property["x-kubernetes-patch-strategy"].as_str().unwrap_or_default();
        let merge = strategy.split(',').any(|part| part == "merge");
        let key = property["x-kubernetes-patch-merge-key"].as_str();
        if field.merge != merge || field.key.as_deref() != key {
            wrong.push(format!("{path}.{name}: merged otherwise there ({strategy} by {key:?})"));
        }
        let (mut inner, mut json) = (field.ty, property);
        let kind = |json: &Value| json["type"].as_str().unwrap_or("object").to_owned();
        loop {
            match POD.target(inner).1 {
                Type::Slice(item) if kind(json) == "array" => (inner, json) = (*item, &json["items"]),
                Type::Map(item) if json["additionalProperties"].is_object() => {
                    (inner, json) = (*item, &json["additionalProperties"])
                }
                _ => break,
            }
        }
        let referred = json["$ref"].as_str().and_then(|reference| reference.strip_prefix("#/definitions/"));
        let told = referred.map_or_else(|| kind(json), |name| kind(&definitions[name]));
        let fits = match POD.target(inner).1 {
            Type::Bool => told == "boolean",
            Type::Int(_) => told == "integer",
            Type::String => told == "string",
            Type::Struct(inner) => match inner.form {
                Form::Object | Form::Anything => told == "object",
                Form::IntOrString | Form::Quantity | Form::Time => told == "string",
            },
            Type::Slice(_) | Type::Map(_) | Type::Ptr(_) => false,
        };
        if !fits {
            wrong.push(format!("{path}.{name}: {told} there"));
        }
        if let Some(referred) = referred {
            compare(definitions, referred, inner, &format!("{path}.{name}"), seen, wrong);
        }
    }
}

#[test]
fn the_field_tree_of_this_build_is_the_api_servers() {
    let plane = ControlPlane::shared();
    let openapi = plane.kubectl(&["get", "--raw", "/openapi/v2"]);
    assert!(openapi.ok, "{}", openapi.stderr);
    let openapi: Value = serde_json::from_str(&openapi.stdout).unwrap();
    let mut wrong = Vec::new();
    compare(&openapi["definitions"], "io.k8s.api.core.v1.Pod", POD.pod(), "", &mut Vec::new(), &mut wrong);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_api_servers_openapi_adds_what_it_knows_besides_and_changes_nothing() {
    let plane = ControlPlane::shared();
    let openapi = plane.kubectl(&["get", "--raw", "/openapi/v3/api/v1"]);
    assert!(openapi.ok, "{}", openapi.stderr);
    let (_, added) = POD.with_openapi(&openapi.stdout).unwrap();
    assert_eq!(added, 0, "this build knows all fields of this API server");

    let mut openapi: Value = serde_json::from_str(&openapi.stdout).unwrap();
    let container = &mut openapi["components"]["schemas"]["io.k8s.api.core.v1.Container"]["properties"];
    container["llamas"] = container["env"].clone();
    let (graph, added) = POD.with_openapi(&openapi.to_string()).unwrap();
    assert_eq!(added, 1);
    let Type::Struct(container) = graph.ty(graph.named("v1.Container").unwrap()) else { panic!("a struct") };
    let (llamas, env) = (container.field("llamas").unwrap(), container.field("env").unwrap());
    assert_eq!(llamas.list_key(), Some("name"));
    let item = |ty: TypeId| match graph.target(ty).1 {
        Type::Slice(item) => *item,
        other => panic!("no list: {other:?}"),
    };
    assert_eq!(item(llamas.ty), item(env.ty), "its items are the variables that this build knows");
}
