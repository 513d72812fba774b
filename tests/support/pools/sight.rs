use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Client, Resource,
    runtime::{WatchStreamExt, watcher},
};
use tokio::task::JoinHandle;

use super::objects::{JOB, pods};

/// A pod as this watch last saw it.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) version: String,
    /// The pool whose own pod it is.
    pub(crate) pool: Option<String>,
    /// The pool whose job pod it is.
    pub(crate) job: Option<String>,
    pub(crate) phase: String,
    pub(crate) on_node: bool,
    pub(crate) ready: bool,
    pub(crate) going: bool,
    /// It carries the label that says that it is at work.
    pub(crate) busy: bool,
    pub(crate) draining: bool,
    /// It carries the annotation that keeps autoscalers off.
    pub(crate) kept: bool,
    /// When it was seen first.
    pub(crate) first: Instant,
}

impl Known {
    /// Whether work can be given to it.
    pub(crate) fn is_free(&self) -> bool {
        self.phase == "Running" && self.ready && !self.going && !self.busy && !self.draining
    }

    pub(crate) fn has_ended(&self) -> bool {
        ["Succeeded", "Failed"].contains(&self.phase.as_str())
    }
}

/// What must hold at each event, and what was counted.
#[derive(Debug, Default)]
struct Inner {
    known: HashMap<String, Known>,
    /// The most pods that a pool may have, by pool.
    ceilings: HashMap<String, usize>,
    /// Job pods that their owner deletes: nobody else may.
    done: HashSet<String>,
    /// Pods that a pool made, by uid.
    made: BTreeMap<String, HashSet<String>>,
    most: BTreeMap<String, usize>,
    busy_seen: HashSet<String>,
    events: u64,
    violations: Vec<String>,
}

/// A watch of a namespace's pods that keeps when each was seen first and checks every event: no agent at work goes, no
/// job goes that its owner didn't delete, no pool has more pods than it may.
#[derive(Clone, Debug)]
pub(crate) struct Sight {
    inner: Arc<Mutex<Inner>>,
    task: Arc<Task>,
}

#[derive(Debug)]
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Sight {
    pub(crate) fn start(client: &Client, namespace: &str) -> Self {
        let inner = Arc::new(Mutex::new(Inner::default()));
        let (told, api) = (inner.clone(), pods(client, namespace));
        let task = tokio::spawn(async move {
            let mut events = watcher(api, watcher::Config::default()).default_backoff().boxed();
            let mut listing = HashSet::new();
            while let Some(event) = events.next().await {
                let mut inner = told.lock().unwrap_or_else(PoisonError::into_inner);
                match event {
                    Ok(watcher::Event::Init) => listing.clear(),
                    Ok(watcher::Event::InitApply(pod)) => {
                        listing.insert(pod.metadata.name.clone().unwrap_or_default());
                        inner.put(&pod);
                    }
                    Ok(watcher::Event::InitDone) => inner.known.retain(|name, _| listing.contains(name)),
                    Ok(watcher::Event::Apply(pod)) => inner.put(&pod),
                    Ok(watcher::Event::Delete(pod)) => inner.gone(&pod),
                    // It is taken up again; an API server that is asked too much says so.
                    Err(_) => {}
                }
            }
        });
        Self { inner, task: Arc::new(Task(task)) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on a pool must never have more pods than this.
    pub(crate) fn at_most(&self, pool: &str, ceiling: usize) {
        self.lock().ceilings.insert(pool.to_owned(), ceiling);
    }

    /// A job is done: its owner is about to delete it.
    pub(crate) fn will_delete(&self, job: &str) {
        self.lock().done.insert(job.to_owned());
    }

    /// A pod by its name.
    pub(crate) fn get(&self, name: &str) -> Option<Known> {
        self.lock().known.get(name).cloned()
    }

    /// The pool's own pods.
    pub(crate) fn own(&self, pool: &str) -> Vec<Known> {
        self.lock().known.values().filter(|known| known.pool.as_deref() == Some(pool)).cloned().collect()
    }

    /// Whether all of a pool's own pods are like this, and so many.
    pub(crate) fn are(&self, pool: &str, count: usize, so: impl Fn(&Known) -> bool) -> bool {
        let inner = self.lock();
        let mut own = inner.known.values().filter(|known| known.pool.as_deref() == Some(pool)).peekable();
        (count == 0 || own.peek().is_some())
            && own.try_fold(0, |sum, known| so(known).then_some(sum + 1)) == Some(count)
    }

    /// How many pods there are like this.
    pub(crate) fn count(&self, so: impl Fn(&Known) -> bool) -> usize {
        self.lock().known.values().filter(|known| so(known)).count()
    }

    /// When the pods like this were seen first, in order.
    pub(crate) fn firsts(&self, so: impl Fn(&Known) -> bool) -> Vec<Instant> {
        let mut firsts: Vec<_> =
            self.lock().known.values().filter(|known| so(known)).map(|known| known.first).collect();
        firsts.sort_unstable();
        firsts
    }

    /// How many pods a pool has made so far.
    pub(crate) fn made(&self, pool: &str) -> usize {
        self.lock().made.get(pool).map_or(0, HashSet::len)
    }

    /// The most pods that a pool had at a time.
    pub(crate) fn most(&self, pool: &str) -> usize {
        self.lock().most.get(pool).copied().unwrap_or_default()
    }

    /// How many agents were seen at work.
    pub(crate) fn busy_seen(&self) -> usize {
        self.lock().busy_seen.len()
    }

    /// How many events came.
    pub(crate) fn events(&self) -> u64 {
        self.lock().events
    }

    /// What must not have happened and did.
    pub(crate) fn violations(&self) -> Vec<String> {
        self.lock().violations.clone()
    }
}

impl Inner {
    fn put(&mut self, pod: &Pod) {
        self.events += 1;
        let mut now = read(pod);
        match self.known.get(&now.name) {
            Some(before) if before.uid == now.uid => now.first = before.first,
            _ => {}
        }
        if now.going {
            self.check_going(&now);
        }
        if now.busy {
            self.busy_seen.insert(now.uid.clone());
        }
        let pool = now.pool.clone();
        self.known.insert(now.name.clone(), now.clone());
        if let Some(pool) = pool {
            self.made.entry(pool.clone()).or_default().insert(now.uid);
            let is_held = |known: &&Known| known.pool.as_ref() == Some(&pool) && known.phase != "Succeeded";
            let held = self.known.values().filter(is_held).count();
            let most = self.most.entry(pool.clone()).or_default();
            *most = held.max(*most);
            if let Some(ceiling) = self.ceilings.get(&pool).filter(|ceiling| held > **ceiling) {
                self.violations.push(format!("pool {pool} has {held} pods and may have {ceiling}"));
            }
        }
    }

    fn gone(&mut self, pod: &Pod) {
        self.events += 1;
        let last = read(pod);
        self.check_going(&last);
        self.known.remove(&last.name);
    }

    fn check_going(&mut self, pod: &Known) {
        if pod.pool.is_some() && pod.busy && !pod.has_ended() {
            self.violations.push(format!("the agent {} is at work and goes", pod.name));
        }
        if pod.job.is_some() && !self.done.contains(&pod.name) {
            self.violations.push(format!("the job {} goes and isn't done", pod.name));
        }
    }
}

fn read(pod: &Pod) -> Known {
    let meta = pod.meta();
    let label = |key: &str| meta.labels.as_ref().and_then(|labels| labels.get(key)).cloned();
    let status = pod.status.as_ref();
    let ready = status.and_then(|status| status.conditions.as_ref()).is_some_and(|conditions| {
        conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
    });
    Known {
        name: meta.name.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
        version: meta.resource_version.clone().unwrap_or_default(),
        pool: label(podlayer::names::POOL),
        job: label(JOB),
        phase: status.and_then(|status| status.phase.clone()).unwrap_or_default(),
        on_node: pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()),
        ready,
        going: meta.deletion_timestamp.is_some(),
        busy: label(podlayer::names::POOL_BUSY).is_some(),
        draining: label(podlayer::names::POOL_DRAINING).is_some(),
        kept: meta.annotations.as_ref().is_some_and(|all| all.contains_key(podlayer::names::SAFE_TO_EVICT)),
        first: Instant::now(),
    }
}
