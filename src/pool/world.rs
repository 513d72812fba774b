use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::Pod;
use tokio::sync::Notify;

use super::{
    api::{AgentPool, Key},
    observe::Watched,
    size::View,
};
use crate::names;

/// After how long without an answer of the API server what is known may be old: a watch whose connection leads nowhere
/// says nothing, as one does that has nothing to say. As long as a Lease holds.
const SILENT: Duration = Duration::from_secs(15);

/// What was seen of the cluster, as of the last event of each watch.
#[derive(Debug, Default)]
pub struct World {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    pools: BTreeMap<Key, Arc<AgentPool>>,
    wakes: HashMap<Key, Arc<Notify>>,
    pods: HashMap<String, HashMap<String, Arc<Watched>>>,
    cordoned: HashSet<String>,
    /// Pools one of whose children was changed by somebody.
    stray: BTreeSet<Key>,
    unlisted: HashSet<Source>,
    failing: HashSet<Source>,
    /// When the API server answered last.
    heard: Option<Instant>,
}

/// Something that is watched.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Source {
    /// The pods of a namespace.
    Pods(String),
    /// The pools of a namespace.
    Pools(String),
}

impl World {
    /// One in which nothing of these namespaces was listed yet.
    pub fn new(namespaces: &[String]) -> Self {
        let sources = namespaces.iter().flat_map(|n| [Source::Pods(n.clone()), Source::Pools(n.clone())]);
        Self { inner: Mutex::new(Inner { unlisted: sources.collect(), ..Inner::default() }) }
    }

    /// A pool was made or changed. Gives whether it is new.
    pub fn put_pool(&self, pool: AgentPool) -> Option<Key> {
        let key = pool.key();
        let mut inner = self.lock();
        let pool = Arc::new(pool);
        let before = inner.pools.insert(key.clone(), pool.clone());
        // What the controller itself writes, the status, is no news for it.
        if !before.as_ref().is_some_and(|before| is_same(before, &pool)) {
            wake(&mut inner, &key);
        }
        before.is_none().then_some(key)
    }

    /// A pool went.
    pub fn remove_pool(&self, key: &Key) {
        let mut inner = self.lock();
        inner.pools.remove(key);
        wake(&mut inner, key);
        inner.wakes.remove(key);
    }

    /// A pod of a namespace was made or changed.
    pub fn put_pod(&self, namespace: &str, pod: Pod) {
        // Outside of the lock: it takes as long as everything else together.
        let pod = Arc::new(Watched::from(pod));
        let mut inner = self.lock();
        let pods = inner.pods.entry(namespace.to_owned()).or_default();
        let before = pods.insert(pod.id.name.clone(), pod.clone());
        wake_concerned(&mut inner, namespace, [Some(pod), before]);
    }

    /// A pod went.
    pub fn remove_pod(&self, namespace: &str, name: &str) {
        let mut inner = self.lock();
        let gone = inner.pods.get_mut(namespace).and_then(|pods| pods.remove(name));
        wake_concerned(&mut inner, namespace, [gone, None]);
    }

    /// All that a list didn't hold is gone.
    pub fn listed(&self, source: &Source, names: &HashSet<String>) -> Vec<Key> {
        let mut inner = self.lock();
        // The first news of whether the API server answers: from here on its silence counts.
        inner.heard = Some(Instant::now());
        inner.unlisted.remove(source);
        inner.failing.remove(source);
        let mut gone = Vec::new();
        match source {
            Source::Pods(namespace) => {
                inner.pods.entry(namespace.clone()).or_default().retain(|name, _| names.contains(name));
            }
            Source::Pools(namespace) => {
                let lost = inner.pools.keys().filter(|(n, name)| n == namespace && !names.contains(name));
                gone.extend(lost.cloned());
                inner.pools.retain(|key, _| !gone.contains(key));
            }
        }
        let (Source::Pods(namespace) | Source::Pools(namespace)) = source;
        wake_all(&mut inner, namespace);
        gone
    }

    /// A watch failed, or works.
    pub fn failing(&self, source: &Source, so: bool) {
        let mut inner = self.lock();
        let changed = if so { inner.failing.insert(source.clone()) } else { inner.failing.remove(source) };
        if changed {
            let (Source::Pods(namespace) | Source::Pools(namespace)) = source;
            wake_all(&mut inner, namespace);
        }
    }

    /// The API server answered something just now.
    pub fn heard(&self) {
        self.lock().heard = Some(Instant::now());
    }

    /// The watches that failed and haven't been heard of since.
    pub fn failed(&self) -> Vec<Source> {
        self.lock().failing.iter().cloned().collect()
    }

    /// How many objects are known of a source.
    pub fn count(&self, source: &Source) -> usize {
        let inner = self.lock();
        match source {
            Source::Pods(namespace) => inner.pods.get(namespace).map_or(0, HashMap::len),
            Source::Pools(namespace) => inner.pools.keys().filter(|(n, _)| n == namespace).count(),
        }
    }

    /// Whether a node takes no more pods.
    pub fn cordon(&self, node: &str, so: bool) {
        let mut inner = self.lock();
        let changed = if so { inner.cordoned.insert(node.to_owned()) } else { inner.cordoned.remove(node) };
        if changed {
            let keys: Vec<Key> = inner.pools.keys().cloned().collect();
            for key in keys {
                wake(&mut inner, &key);
            }
        }
    }

    /// The nodes that take no more pods.
    pub fn cordoned(&self) -> HashSet<String> {
        self.lock().cordoned.clone()
    }

    /// Somebody changed or deleted something that a pool holds beside pods.
    pub fn strayed(&self, key: &Key) {
        let mut inner = self.lock();
        inner.stray.insert(key.clone());
        wake(&mut inner, key);
    }

    /// Whether that happened since this was last asked.
    pub fn take_strayed(&self, key: &Key) -> bool {
        self.lock().stray.remove(key)
    }

    /// A pool as it was last seen.
    pub fn pool(&self, key: &Key) -> Option<Arc<AgentPool>> {
        self.lock().pools.get(key).cloned()
    }

    /// All pools, in the order of their names.
    pub fn pools(&self) -> Vec<Arc<AgentPool>> {
        self.lock().pools.values().cloned().collect()
    }

    /// The pods of a namespace.
    pub fn pods(&self, namespace: &str) -> Vec<Arc<Watched>> {
        self.lock().pods.get(namespace).map(|pods| pods.values().cloned().collect()).unwrap_or_default()
    }

    /// Whether what is known of a namespace can be relied on.
    pub fn view(&self, namespace: &str) -> View {
        let inner = self.lock();
        let of = |sources: &HashSet<Source>| {
            sources.iter().any(|source| matches!(source, Source::Pods(n) | Source::Pools(n) if n == namespace))
        };
        let silent = inner.heard.is_some_and(|at| at.elapsed() > SILENT);
        if of(&inner.unlisted) {
            View::Unsynced
        } else if silent || of(&inner.failing) {
            View::Stale
        } else {
            View::Fresh
        }
    }

    /// Whether everything was listed.
    pub fn is_synced(&self) -> bool {
        self.lock().unlisted.is_empty()
    }

    /// What wakes a pool's task.
    pub fn wake_of(&self, key: &Key) -> Arc<Notify> {
        self.lock().wakes.entry(key.clone()).or_default().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a pool asks for what it asked for before.
fn is_same(before: &AgentPool, now: &AgentPool) -> bool {
    let of = |pool: &AgentPool| (pool.metadata.uid.clone(), pool.metadata.deletion_timestamp.clone());
    of(before) == of(now) && before.spec == now.spec
}

fn wake(inner: &mut Inner, key: &Key) {
    inner.wakes.entry(key.clone()).or_default().notify_one();
}

/// Wakes the pools that count a pod, as it is or as it was: every other would decide what it has decided already.
fn wake_concerned(inner: &mut Inner, namespace: &str, pod: [Option<Arc<Watched>>; 2]) {
    let mut concerned = BTreeSet::new();
    for pod in pod.iter().flatten() {
        match pod.labels.get(names::POOL) {
            Some(pool) => concerned.extend(Some((namespace.to_owned(), pool.clone()))),
            None => {
                let counts = |(key, pool): &(&Key, &Arc<AgentPool>)| {
                    key.0 == namespace && pod.is_job_of(&pool.spec.job_selector)
                };
                concerned.extend(inner.pools.iter().filter(counts).map(|(key, _)| key.clone()));
            }
        }
    }
    for key in concerned {
        // A pool that isn't known yet looks at everything once it is.
        if inner.pools.contains_key(&key) {
            wake(inner, &key);
        }
    }
}

fn wake_all(inner: &mut Inner, namespace: &str) {
    let keys: Vec<Key> = inner.pools.keys().filter(|(n, _)| n == namespace).cloned().collect();
    for key in keys {
        wake(inner, &key);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use serde_json::{Value, json};

    use super::*;

    fn pool(name: &str, max: i32, idle: i32) -> AgentPool {
        let pool = json!({"apiVersion": "podlayer.dev/v1alpha1", "kind": "AgentPool",
            "metadata": {"name": name, "namespace": "ci"}, "status": {"idle": idle},
            "spec": {"mode": "Observe", "jobSelector": {"matchLabels": {"team": name}}, "max": max}});
        serde_json::from_value(pool).unwrap()
    }

    fn world() -> World {
        let world = World::new(&["ci".into()]);
        for name in ["a", "b"] {
            assert!(world.put_pool(pool(name, 1, 0)).is_some());
        }
        assert_eq!(woken(&world), ["a", "b"]);
        world
    }

    /// The pools that were woken since this was last asked.
    fn woken(world: &World) -> Vec<&'static str> {
        let is_woken = |name: &str| world.wake_of(&("ci".into(), name.into())).notified().now_or_never().is_some();
        ["a", "b"].into_iter().filter(|name| is_woken(name)).collect()
    }

    fn pod(labels: &Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "ci", "labels": labels}})).unwrap()
    }

    #[test]
    fn what_is_known_is_stale_once_the_api_server_has_been_silent_for_as_long_as_a_lease_holds() {
        let world = World::new(&["ci".into()]);
        assert_eq!(world.view("ci"), View::Unsynced);
        for source in [Source::Pods("ci".into()), Source::Pools("ci".into())] {
            world.listed(&source, &HashSet::new());
        }
        assert_eq!(world.view("ci"), View::Fresh);
        let ago = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds));
        world.lock().heard = ago(14);
        assert_eq!(world.view("ci"), View::Fresh);
        world.lock().heard = ago(16);
        assert_eq!(world.view("ci"), View::Stale);
        world.heard();
        assert_eq!(world.view("ci"), View::Fresh);
    }

    #[test]
    fn a_pod_wakes_the_pools_that_count_it_or_counted_it_and_no_other() {
        let world = world();
        world.put_pod("ci", pod(&json!({"team": "a"})));
        assert_eq!(woken(&world), ["a"]);
        world.put_pod("ci", pod(&json!({"team": "b"})));
        assert_eq!(woken(&world), ["a", "b"], "one job less for the one, one more for the other");
        world.put_pod("ci", pod(&json!({"team": "b", "podlayer.dev/pool": "a"})));
        assert_eq!(woken(&world), ["a", "b"], "a pool's own pod is no other's job");
        world.remove_pod("ci", "p");
        assert_eq!(woken(&world), ["a"]);
        world.put_pod("ci", pod(&json!({"team": "c"})));
        world.put_pod("ci", pod(&json!(null)));
        world.remove_pod("ci", "p");
        assert!(woken(&world).is_empty());
    }

    #[test]
    fn a_pool_is_woken_by_its_spec_and_not_by_its_status() {
        let world = world();
        assert_eq!(world.put_pool(pool("a", 1, 5)), None);
        assert!(woken(&world).is_empty());
        assert_eq!(world.put_pool(pool("a", 2, 5)), None);
        assert_eq!(woken(&world), ["a"]);
    }

    #[test]
    fn what_concerns_a_whole_namespace_wakes_all_of_its_pools() {
        let world = world();
        world.failing(&Source::Pods("ci".into()), true);
        assert_eq!(woken(&world), ["a", "b"]);
        world.listed(&Source::Pods("ci".into()), &HashSet::new());
        assert_eq!(woken(&world), ["a", "b"]);
        world.cordon("n", true);
        assert_eq!(woken(&world), ["a", "b"]);
    }
}
