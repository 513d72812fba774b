//! An agent's pod: the pool's template with one of the pool's images, opted in like any job pod, so that layers and guard
//! rails come from the webhook.

use serde_json::{Map, Value, json};

use super::{AgentKey, bind, object_names, wire::AgentRef};
use crate::{
    names,
    pool::{
        api::{AgentPool, Azure, PoolImage},
        shape::{self, ShapeError},
    },
};

/// The volume of an agent's Secret.
const VOLUME: &str = "azure-pipelines-agent";
/// The files of an agent's Secret that its container sees.
pub(super) const FILES: [&str; 4] = [".agent", ".credentials", ".url", ".agentVersion"];

/// The image that a call asks for, by its name; `None` is the template's own. A pool without named images has nothing to
/// choose among, so whatever is asked for there means its one.
///
/// # Errors
/// What to write instead.
pub(super) fn choose<'p>(azure: &'p Azure, asked: Option<&str>) -> Result<Option<&'p PoolImage>, String> {
    let Some(asked) = asked.filter(|_| !azure.images.is_empty()) else { return Ok(azure.default_image()) };
    let found = azure.images.iter().find(|image| image.name == asked);
    found.map(Some).ok_or_else(|| {
        let short: String = asked.chars().take(63).collect();
        let known: Vec<&str> = azure.images.iter().map(|image| image.name.as_str()).collect();
        format!("the agent specification asks for the image {short:?}; this pool has {}", known.join(", "))
    })
}

/// The pod of an agent.
///
/// # Errors
/// When the template is no pod.
pub(super) fn pod(
    pool: &AgentPool,
    azure: &Azure,
    agent: &AgentRef,
    key: AgentKey,
    image: Option<&PoolImage>,
) -> Result<Value, ShapeError> {
    let bad = |text: &str| ShapeError::Template(text.to_owned());
    let name = object_names::agent(pool, key);
    let mut pod = shape::agent(pool)?.pod;
    pod["metadata"]["name"] = json!(name);
    pod["metadata"]["labels"][names::AGENT_ID] = json!(agent.agent_id);
    pod["metadata"]["annotations"][names::AZURE_BINDING] = json!(bind::mark(agent));
    let spec = pod["spec"].as_object_mut().ok_or_else(|| bad("its spec is no object"))?;
    spec.entry("restartPolicy").or_insert_with(|| json!("Never"));
    if let Some(lifetime) = azure.lifetime() {
        spec.entry("activeDeadlineSeconds").or_insert_with(|| json!(lifetime.as_secs()));
    }
    let files: Vec<Value> = FILES.iter().map(|file| json!({"key": file, "path": file})).collect();
    put(spec, "volumes", VOLUME, json!({"name": VOLUME, "secret": {"secretName": name, "items": files}}));
    let containers = spec.get_mut("containers").and_then(Value::as_array_mut);
    let containers = containers.ok_or_else(|| bad("its spec has no containers"))?;
    let container = match &azure.container {
        Some(name) => containers.iter_mut().find(|container| container["name"] == name.as_str()),
        None => containers.first_mut(),
    };
    let container = container.and_then(Value::as_object_mut);
    let container = container.ok_or_else(|| bad("the container that azure.container names isn't there"))?;
    if let Some(image) = image {
        container.insert("image".into(), json!(image.image));
    }
    let running_on = json!({"name": names::AZURE_RUNNING_ON, "value": names::AZURE_RUNNING_ON_VALUE});
    put(container, "env", names::AZURE_RUNNING_ON, running_on);
    let mount = json!({"name": VOLUME, "mountPath": names::AZURE_MOUNT, "readOnly": true});
    put(container, "volumeMounts", VOLUME, mount);
    Ok(pod)
}

/// Puts a named element into a list, in the place of one of that name.
fn put(object: &mut Map<String, Value>, list: &str, name: &str, element: Value) {
    let list = object.entry(list).or_insert_with(|| json!([]));
    if !list.is_array() {
        *list = json!([]);
    }
    let Some(list) = list.as_array_mut() else { return };
    list.retain(|other| other["name"] != name);
    list.push(element);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(azure: Value) -> AgentPool {
        serde_json::from_value(json!({"apiVersion": "podlayer.dev/v1alpha1", "kind": "AgentPool",
            "metadata": {"name": "linux", "namespace": "ci", "uid": "u"},
            "spec": {"mode": "Agents", "max": 1, "azure": azure, "template": {"spec": {"containers": [
                {"name": "agent", "image": "own", "env": [{"name": "RUNNING_ON", "value": "?"}, {"name": "A", "value": "b"}]},
                {"name": "dind", "image": "dind"}]}}}}))
        .unwrap()
    }

    fn agent() -> AgentRef {
        AgentRef { agent_id: "17".into(), account_id: None, agent_pool: None }
    }

    #[test]
    fn an_agent_is_the_template_with_what_the_older_provider_gave_it() {
        let pool =
            pool(json!({"secretName": "s", "images": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]}));
        let azure = pool.spec.azure.as_ref().unwrap();
        let key = AgentKey::new("u", "17");
        let image = choose(azure, Some("b")).unwrap();
        let pod = pod(&pool, azure, &agent(), key, image).unwrap();
        assert_eq!(pod["metadata"]["name"], format!("linux-az-{key}"));
        assert_eq!(object_names::key_of(&pool, pod["metadata"]["name"].as_str().unwrap()), Some(key));
        assert_eq!(pod["metadata"]["labels"]["AgentId"], "17");
        assert_eq!(pod["metadata"]["labels"]["podlayer.dev/enabled"], "true");
        assert_eq!(pod["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"], "true");
        let spec = &pod["spec"];
        assert_eq!((&spec["restartPolicy"], &spec["activeDeadlineSeconds"]), (&json!("Never"), &json!(86400)));
        assert_eq!(spec["containers"][0]["image"], "b:1");
        assert_eq!(
            spec["containers"][0]["env"],
            json!([{"name": "A", "value": "b"}, {"name": "RUNNING_ON", "value": "KUBERNETES"}])
        );
        assert_eq!(spec["containers"][0]["volumeMounts"][0]["mountPath"], "/azurepipelines/agent");
        assert!(spec["containers"][1].get("volumeMounts").is_none(), "no credentials for sidecars");
        assert_eq!(spec["volumes"][0]["secret"]["secretName"], pod["metadata"]["name"]);
    }

    #[test]
    fn a_pipeline_chooses_among_named_images_and_brings_none_of_its_own() {
        let azure: Azure = serde_json::from_value(json!({"secretName": "s", "defaultImage": "b",
            "images": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]}))
        .unwrap();
        let chosen = |asked| choose(&azure, asked).map(|image| image.unwrap().image.clone());
        assert_eq!(chosen(None).unwrap(), "b:1");
        assert_eq!(chosen(Some("a")).unwrap(), "a:1");
        assert_eq!(
            chosen(Some("evil.example/x:1")).unwrap_err(),
            "the agent specification asks for the image \"evil.example/x:1\"; this pool has a, b"
        );
        let none = Azure { images: Vec::new(), ..azure.clone() };
        assert_eq!(choose(&none, Some("ubuntu-latest")), Ok(None));
    }
}
