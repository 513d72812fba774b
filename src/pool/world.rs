use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::Pod;
use tokio::sync::Notify;

use super::{
    api::{AgentPool, Key},
    observe::{Happening, Watched, happenings},
    size::View,
};
use crate::names;

/// After how long without an answer of the API server what is known may be old: a watch whose connection leads nowhere
/// says nothing, as one does that has nothing to say. As long as a Lease holds.
const SILENT: Duration = Duration::from_secs(15);

/// What was seen of the cluster, as of the last event of each watch.
#[derive(Debug, Default)]
pub struct World {
    sources: Vec<Source>,
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
    /// When all of this began.
    began: Option<Instant>,
    unlisted: HashSet<Source>,
    /// And since when.
    failing: HashMap<Source, Instant>,
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
        let sources: Vec<Source> = sources.collect();
        let (unlisted, began) = (sources.iter().cloned().collect(), Some(Instant::now()));
        Self { sources, inner: Mutex::new(Inner { unlisted, began, ..Inner::default() }) }
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

    /// A pod of a namespace was made or changed. Gives what happened to which pools by that.
    pub fn put_pod(&self, namespace: &str, pod: Pod) -> Vec<(Key, Happening)> {
        // Outside of the lock: it takes as long as everything else together.
        let pod = Watched::from(pod);
        let mut inner = self.lock();
        let pods = inner.pods.entry(namespace.to_owned()).or_default();
        let before = pods.remove(&pod.id.name);
        let pod = Arc::new(pod.after(before.as_deref()));
        pods.insert(pod.id.name.clone(), pod.clone());
        let mut happened = Vec::new();
        if let Some(before) = &before {
            for key in concerned(&inner, namespace, &pod) {
                let Some(pool) = inner.pools.get(&key) else { continue };
                let all = happenings(before, &pod, &pool.spec);
                happened.extend(all.into_iter().map(|happening| (key.clone(), happening)));
            }
        }
        wake_concerned(&mut inner, namespace, [Some(pod), before]);
        happened
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
        let changed = so != inner.failing.contains_key(source);
        if changed {
            if so {
                inner.failing.insert(source.clone(), Instant::now());
            } else {
                inner.failing.remove(source);
            }
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
        self.lock().failing.keys().cloned().collect()
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
        let of = |source: &Source| matches!(source, Source::Pods(n) | Source::Pools(n) if n == namespace);
        let silent = inner.heard.is_some_and(|at| at.elapsed() > SILENT);
        if inner.unlisted.iter().any(of) {
            View::Unsynced
        } else if silent || inner.failing.keys().any(of) {
            View::Stale
        } else {
            View::Fresh
        }
    }

    /// For how long what is known from each signal may have been out of date: since the API server was last heard, or
    /// since the watch failed, or since the beginning if it wasn't listed yet. By namespace and signal.
    pub fn ages(&self) -> Vec<(String, &'static str, Duration)> {
        let inner = self.lock();
        let now = Instant::now();
        let age = |source: &Source| {
            let heard = if inner.unlisted.contains(source) { inner.began } else { inner.heard.or(inner.began) };
            let known = heard.into_iter().chain(inner.failing.get(source).copied()).min();
            let age = known.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
            match source {
                Source::Pods(namespace) => (namespace.clone(), "pods", age),
                Source::Pools(namespace) => (namespace.clone(), "pools", age),
            }
        };
        self.sources.iter().map(age).collect()
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
    let keys: BTreeSet<Key> = pod.iter().flatten().flat_map(|pod| concerned(inner, namespace, pod)).collect();
    for key in keys {
        // A pool that isn't known yet looks at everything once it is.
        if inner.pools.contains_key(&key) {
            wake(inner, &key);
        }
    }
}

/// The pools that count a pod: the one whose it is, or all whose job it is.
fn concerned(inner: &Inner, namespace: &str, pod: &Watched) -> Vec<Key> {
    match pod.labels.get(names::POOL) {
        Some(pool) => vec![(namespace.to_owned(), pool.clone())],
        None => {
            let counts =
                |(key, pool): &(&Key, &Arc<AgentPool>)| key.0 == namespace && pod.is_job_of(&pool.spec.job_selector);
            inner.pools.iter().filter(counts).map(|(key, _)| key.clone()).collect()
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
    fn a_signal_ages_while_its_watch_fails_or_was_never_listed_and_all_do_while_the_api_server_is_silent() {
        let (pods, pools) = (Source::Pods("ci".into()), Source::Pools("ci".into()));
        let world = World::new(&["ci".into()]);
        let ago = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds));
        let ages = || -> Vec<u64> { world.ages().into_iter().map(|(_, _, age)| age.as_secs()).collect() };
        world.lock().began = ago(100);
        assert_eq!(ages(), [100, 100]);
        world.listed(&pods, &HashSet::new());
        assert_eq!(ages(), [0, 100]);
        world.listed(&pools, &HashSet::new());
        world.lock().heard = ago(7);
        assert_eq!(ages(), [7, 7]);
        world.heard();
        world.failing(&pods, true);
        world.lock().failing.insert(pods.clone(), ago(30).unwrap());
        world.failing(&pods, true);
        assert_eq!(ages(), [30, 0], "since it began to fail");
        world.failing(&pods, false);
        assert_eq!(ages(), [0, 0]);
    }

    #[test]
    fn what_happens_to_a_pod_is_counted_for_the_pools_that_count_it_and_not_when_it_is_first_seen() {
        let world = world();
        world.put_pool(pool("c", 1, 0));
        let job = |team: &str, at: Option<&str>| {
            let mut job = pod(&json!({"team": team}));
            job.metadata.creation_timestamp = Some(serde_json::from_value(json!("2027-01-15T08:00:00Z")).unwrap());
            let condition = at.map(|at| json!([{"type": "PodScheduled", "status": "True", "lastTransitionTime": at}]));
            job.status = Some(serde_json::from_value(json!({"conditions": condition})).unwrap());
            job
        };
        let placed = Some("2027-01-15T08:00:03Z");
        assert_eq!(world.put_pod("ci", job("b", placed)), [], "it may have been counted by another leader");
        world.remove_pod("ci", "p");
        assert_eq!(world.put_pod("ci", job("b", None)), []);
        let happened = (("ci".to_owned(), "b".to_owned()), Happening::Placed(Duration::from_secs(3)));
        assert_eq!(world.put_pod("ci", job("b", placed)), [happened]);
        assert_eq!(world.put_pod("ci", job("b", placed)), []);
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
