use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use futures::{Stream, StreamExt, stream::select_all};
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{Node, Pod, Service},
    policy::v1::PodDisruptionBudget,
};
use kube::{
    Api, Client, Resource,
    api::{ListParams, PartialObjectMeta},
    runtime::{WatchStreamExt, watcher},
};
use tokio::{sync::mpsc, time::MissedTickBehavior};

use super::{
    api::{AgentPool, Key},
    observe::Happening,
    world::{Source, World},
};
use crate::names;

/// How often a watch that failed is asked whether what is known is still the whole.
const PROBE: Duration = Duration::from_secs(5);

/// How many pods are asked for at once. Until they are looked at they are whole, and what memory they took then stays the
/// process's: at 500, kube's default, that was as much as everything else.
const PAGE: u32 = 100;

#[allow(clippy::large_enum_variant, reason = "there is one at a time, and it is taken apart at once")]
enum Event {
    Child(String, Result<watcher::Event<Child>, watcher::Error>),
    Node(Result<watcher::Event<Node>, watcher::Error>),
    Pod(String, Result<watcher::Event<Pod>, watcher::Error>),
    Pool(String, Result<watcher::Event<AgentPool>, watcher::Error>),
}

/// The pool that a child belongs to, where it says so.
struct Child(Option<String>);

/// Keeps the world up to date, and tells of each pool that appears and of what happens to pods. Ends when nobody listens
/// any more.
pub(super) async fn follow(
    client: Client,
    namespaces: Vec<String>,
    world: Arc<World>,
    appeared: mpsc::UnboundedSender<Key>,
    happened: impl Fn(&Key, Happening),
) {
    let put_pod = |namespace: &str, pod: Pod| {
        world.put_pod(namespace, pod).iter().for_each(|(key, happening)| happened(key, *happening));
    };
    let mut streams = Vec::new();
    for namespace in &namespaces {
        let named = |namespace: &String| namespace.clone();
        let name = named(namespace);
        let pools = watcher(Api::<AgentPool>::namespaced(client.clone(), namespace), watcher::Config::default());
        streams.push(pools.default_backoff().map(move |event| Event::Pool(name.clone(), event)).boxed());
        let name = named(namespace);
        let config = watcher::Config::default().page_size(PAGE);
        let pods = watcher(Api::<Pod>::namespaced(client.clone(), namespace), config);
        streams.push(pods.default_backoff().map(move |event| Event::Pod(name.clone(), event)).boxed());
        streams.push(children::<PodDisruptionBudget>(&client, namespace).boxed());
        streams.push(children::<StatefulSet>(&client, namespace).boxed());
        streams.push(children::<Service>(&client, namespace).boxed());
    }
    let nodes = watcher(Api::<Node>::all(client.clone()), watcher::Config::default());
    streams.push(nodes.default_backoff().map(Event::Node).boxed());
    let mut events = select_all(streams);
    let mut listing: HashMap<Source, HashSet<String>> = HashMap::new();
    let mut probe = tokio::time::interval(PROBE);
    probe.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            _ = probe.tick() => {
                for source in world.failed() {
                    if is_whole(&client, &source, world.count(&source)).await {
                        world.failing(&source, false);
                    }
                }
                continue;
            }
        };
        match event {
            None => return,
            Some(Event::Pool(namespace, event)) => {
                let source = Source::Pools(namespace);
                let names = listing.entry(source.clone()).or_default();
                let Some(event) = checked(&world, &source, event) else { continue };
                match event {
                    watcher::Event::Init => names.clear(),
                    watcher::Event::InitApply(pool) | watcher::Event::Apply(pool) => {
                        names.insert(pool.key().1);
                        if let Some(key) = world.put_pool(pool)
                            && appeared.send(key).is_err()
                        {
                            return;
                        }
                    }
                    watcher::Event::InitDone => {
                        for key in world.listed(&source, names) {
                            world.remove_pool(&key);
                        }
                    }
                    watcher::Event::Delete(pool) => world.remove_pool(&pool.key()),
                }
            }
            Some(Event::Pod(namespace, event)) => {
                let source = Source::Pods(namespace.clone());
                let names = listing.entry(source.clone()).or_default();
                let Some(event) = checked(&world, &source, event) else { continue };
                match event {
                    watcher::Event::Init => names.clear(),
                    watcher::Event::InitApply(pod) => {
                        names.insert(pod.metadata.name.clone().unwrap_or_default());
                        put_pod(&namespace, pod);
                    }
                    watcher::Event::Apply(pod) => put_pod(&namespace, pod),
                    watcher::Event::InitDone => _ = world.listed(&source, &std::mem::take(names)),
                    watcher::Event::Delete(pod) => {
                        world.remove_pod(&namespace, pod.metadata.name.as_deref().unwrap_or_default());
                    }
                }
            }
            Some(Event::Node(Ok(watcher::Event::Apply(node) | watcher::Event::InitApply(node)))) => {
                let unschedulable = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false);
                world.cordon(node.metadata.name.as_deref().unwrap_or_default(), unschedulable);
            }
            Some(Event::Node(Ok(watcher::Event::Delete(node)))) => {
                world.cordon(node.metadata.name.as_deref().unwrap_or_default(), false);
            }
            Some(Event::Child(namespace, Ok(watcher::Event::Apply(child) | watcher::Event::Delete(child)))) => {
                if let Some(pool) = child.0 {
                    world.strayed(&(namespace, pool));
                }
            }
            Some(Event::Node(Err(error)) | Event::Child(_, Err(error))) => {
                tracing::warn!(error = %error, "a watch failed, trying again");
            }
            Some(Event::Node(Ok(_)) | Event::Child(_, Ok(_))) => {}
        }
    }
}

fn children<K>(client: &Client, namespace: &str) -> impl Stream<Item = Event> + Send + use<K>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + Send
        + Sync
        + serde::de::DeserializeOwned
        + 'static,
{
    let api: Api<PartialObjectMeta<K>> = Api::namespaced(client.clone(), namespace);
    let config = watcher::Config::default().labels(names::POOL);
    let namespace = namespace.to_owned();
    let child = |object: PartialObjectMeta<K>| {
        Child(object.metadata.labels.and_then(|labels| labels.get(names::POOL).cloned()))
    };
    watcher(api, config).default_backoff().map(move |event| {
        let event = event.map(|event| match event {
            watcher::Event::Apply(object) => watcher::Event::Apply(child(object)),
            watcher::Event::Delete(object) => watcher::Event::Delete(child(object)),
            watcher::Event::Init => watcher::Event::Init,
            watcher::Event::InitApply(object) => watcher::Event::InitApply(child(object)),
            watcher::Event::InitDone => watcher::Event::InitDone,
        });
        Event::Child(namespace.clone(), event)
    })
}

/// Notes whether a watch works.
fn checked<T>(
    world: &World,
    source: &Source,
    event: Result<watcher::Event<T>, watcher::Error>,
) -> Option<watcher::Event<T>> {
    match event {
        Ok(event) => {
            world.failing(source, false);
            Some(event)
        }
        Err(error) => {
            tracing::warn!(?source, error = %error, "a watch failed: nothing is decided until it works again");
            world.failing(source, true);
            None
        }
    }
}

/// Whether the API server has as many objects as are known: after a watch has failed and been taken up again, nothing
/// else may come for a long time.
async fn is_whole(client: &Client, source: &Source, known: usize) -> bool {
    async fn count<K>(client: &Client, namespace: &str) -> Result<usize, kube::Error>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
    {
        let list =
            Api::<K>::namespaced(client.clone(), namespace).list_metadata(&ListParams::default().limit(1)).await?;
        let more = list.metadata.remaining_item_count.and_then(|more| usize::try_from(more).ok());
        Ok(list.items.len() + more.unwrap_or(0))
    }
    let counted = match source {
        Source::Pods(namespace) => count::<Pod>(client, namespace).await,
        Source::Pools(namespace) => count::<AgentPool>(client, namespace).await,
    };
    counted.is_ok_and(|counted| counted == known)
}
