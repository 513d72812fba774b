//! The field tree of this build against the API server's own word.

use podlayer::schema::{Form, POD, Type, TypeId};
use serde_json::Value;

use crate::controlplane::{ControlPlane, minor_of_this_build};

/// How this build's types and an API server's differ; each names its path.
#[derive(Default)]
struct Differences {
    /// Fields that a newer API server knows, and those that an older one doesn't.
    only_there: Vec<String>,
    only_here: Vec<String>,
    /// What no release may change.
    wrong: Vec<String>,
}

/// Compares one object type with its OpenAPI definition; goes on into the types of its fields.
fn compare(
    definitions: &Value,
    definition: &str,
    ty: TypeId,
    path: &str,
    seen: &mut Vec<String>,
    found: &mut Differences,
) {
    if seen.iter().any(|known| known == definition) {
        return;
    }
    seen.push(definition.to_owned());
    let Type::Struct(fields) = POD.target(ty).1 else { return };
    let Some(properties) = definitions[definition]["properties"].as_object() else { return };
    for name in fields.names().filter(|name| !properties.contains_key(*name)) {
        found.only_here.push(format!("{path}.{name}"));
    }
    for (name, property) in properties {
        let Some(field) = fields.field(name) else {
            found.only_there.push(format!("{path}.{name}"));
            continue;
        };
        let strategy = property["x-kubernetes-patch-strategy"].as_str().unwrap_or_default();
        let merge = strategy.split(',').any(|part| part == "merge");
        let key = property["x-kubernetes-patch-merge-key"].as_str();
        if field.merge != merge || field.key.as_deref() != key {
            found.wrong.push(format!("{path}.{name}: merged otherwise there ({strategy} by {key:?})"));
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
            found.wrong.push(format!("{path}.{name}: {told} there"));
        }
        if let Some(referred) = referred {
            compare(definitions, referred, inner, &format!("{path}.{name}"), seen, found);
        }
    }
}

/// How many minor releases the API server is ahead of this build's types: 0, unless `.ci/kubernetes` runs this.
fn ahead(plane: &ControlPlane) -> i32 {
    let version = plane.kubectl(&["get", "--raw", "/version"]);
    let version: Value = serde_json::from_str(&version.stdout).unwrap();
    version["minor"].as_str().unwrap().parse::<i32>().unwrap() - minor_of_this_build()
}

/// Compares all of Pod.
fn differences(plane: &ControlPlane) -> Differences {
    let openapi = plane.kubectl(&["get", "--raw", "/openapi/v2"]);
    assert!(openapi.ok, "{}", openapi.stderr);
    let openapi: Value = serde_json::from_str(&openapi.stdout).unwrap();
    let mut found = Differences::default();
    compare(&openapi["definitions"], "io.k8s.api.core.v1.Pod", POD.pod(), "", &mut Vec::new(), &mut found);
    found
}

#[test]
fn the_field_tree_of_this_build_is_the_api_servers() {
    let plane = ControlPlane::shared();
    let mut found = differences(plane);
    let ahead = ahead(plane);
    // A status is nothing that anybody patches here, and its alpha fields change: Kubernetes 1.37 has other keys and
    // fields below nodeAllocatableResourceClaimStatuses than 1.36.
    let counts = |difference: &String| ahead == 0 || !difference.starts_with(".status.");
    found.wrong.retain(counts);
    found.only_here.retain(counts);
    assert!(found.wrong.is_empty(), "{}", found.wrong.join("\n"));
    // Fields come with releases, so another one has more or fewer; none loses what it had.
    assert!(ahead > 0 || found.only_there.is_empty(), "this build lacks {}", found.only_there.join(", "));
    assert!(ahead < 0 || found.only_here.is_empty(), "the API server lacks {}", found.only_here.join(", "));
}

#[test]
fn the_api_servers_openapi_adds_what_it_knows_besides_and_changes_nothing() {
    let plane = ControlPlane::shared();
    let openapi = plane.kubectl(&["get", "--raw", "/openapi/v3/api/v1"]);
    assert!(openapi.ok, "{}", openapi.stderr);
    let (_, before) = POD.with_openapi(&openapi.stdout).unwrap();
    // All of those of its own release and of older ones.
    let unknown = differences(plane).only_there;
    assert_eq!(before > 0, !unknown.is_empty(), "{before} are added: {}", unknown.join(", "));

    let mut openapi: Value = serde_json::from_str(&openapi.stdout).unwrap();
    let container = &mut openapi["components"]["schemas"]["io.k8s.api.core.v1.Container"]["properties"];
    container["llamas"] = container["env"].clone();
    let (graph, added) = POD.with_openapi(&openapi.to_string()).unwrap();
    assert_eq!(added, before + 1);
    let Type::Struct(container) = graph.ty(graph.named("v1.Container").unwrap()) else { panic!("a struct") };
    let (llamas, env) = (container.field("llamas").unwrap(), container.field("env").unwrap());
    assert_eq!(llamas.list_key(), Some("name"));
    let item = |ty: TypeId| match graph.target(ty).1 {
        Type::Slice(item) => *item,
        other => panic!("no list: {other:?}"),
    };
    assert_eq!(item(llamas.ty), item(env.ty), "its items are the variables that this build knows");
}
