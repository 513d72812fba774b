//! The one place of a replica through which a pool's ledger is changed. Calls that come while one change is under way are
//! gathered into the next: two hundred calls at once are a few writes, and replicas seldom come before each other.

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, Resource, api::ListParams};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep, timeout},
};

use super::{
    ledger::{Admission, AgentKey, Ledger, Pods, Seen},
    object_names, pod, reap,
    service::Service,
    store::{self, StoreError},
};
use crate::{
    names,
    pool::{
        Key,
        api::{AgentPool, Azure, PoolImage},
        observe,
        size::{Agent, State, schedule},
    },
    telemetry::log::with_causes,
};

/// How many calls are decided together.
const TOGETHER: usize = 128;
/// How many wait at most; the server lets fewer in at once.
const WAITING: usize = 1024;
/// How often a change is tried anew that another replica came before. Each time one of them has got through, so with
/// three replicas the last of them needs three.
const TRIES: u32 = 20;
/// How long one try may take: three calls to the API server.
const PATIENCE: Duration = Duration::from_secs(10);

/// A question, with where its answer goes.
pub(super) enum Ask {
    /// May this agent come?
    Admit { key: AgentKey, digest: u64, image: Option<String>, answer: oneshot::Sender<Answered> },
    /// It may go. The digest is that of the call.
    Release { key: AgentKey, digest: u64, answer: oneshot::Sender<Answered> },
    /// It can't come after all.
    Forget { key: AgentKey },
}

/// What is answered.
pub(super) type Answered = Result<Answer, Unsure>;

/// A decision that is written.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// It may come, from this version of the pool and with this image.
    Admitted(Arc<AgentPool>, Option<PoolImage>),
    /// The ledger doesn't let it.
    Not(Admission),
    /// The pool has no such image; a sentence for the caller.
    NoImage(String),
    /// The pool is paused, or going.
    Paused,
    /// It may go, and won't come back.
    Released,
    /// The call is one that asked for an agent.
    Replayed,
}

/// Nothing was decided.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(super) enum Unsure {
    /// Others were always faster.
    #[error("other replicas are changing this pool's agents all the time; try again")]
    Busy,
    /// The pool is gone.
    #[error("the pool is gone")]
    Gone,
    /// The API server can't be reached, or refuses.
    #[error("the cluster can't be asked right now; try again")]
    Away,
}

/// The way to a desk.
#[derive(Clone, Debug)]
pub(super) struct Desk(mpsc::Sender<Ask>);

impl Desk {
    /// Opens one for a pool, which looks around by itself as often as this. It ends with its pool.
    pub(super) fn open(service: Arc<Service>, key: Key, uid: String, look_every: Duration) -> Self {
        let (sender, asks) = mpsc::channel(WAITING);
        tokio::spawn(async move { Clerk { service, key, uid }.work(asks, look_every).await });
        Self(sender)
    }

    /// Asks, and waits for the answer.
    pub(super) async fn ask(&self, ask: impl FnOnce(oneshot::Sender<Answered>) -> Ask) -> Answered {
        let (sender, answer) = oneshot::channel();
        self.0.send(ask(sender)).await.map_err(|_| Unsure::Gone)?;
        answer.await.map_err(|_| Unsure::Away)?
    }

    /// Says that an agent can't come. If that can't be written its place comes back by itself, later.
    pub(super) async fn forget(&self, key: AgentKey) {
        let _ = self.0.send(Ask::Forget { key }).await;
    }

    /// Whether it was closed.
    pub(super) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

struct Clerk {
    service: Arc<Service>,
    key: Key,
    uid: String,
}

impl Clerk {
    async fn work(self, mut asks: mpsc::Receiver<Ask>, look_every: Duration) {
        // Replicas that start together don't look together.
        let jitter = look_every.mul_f64(f64::from(random_byte()) / 256.0);
        let mut next_look = Instant::now() + jitter;
        let mut batch = Vec::new();
        loop {
            let there = self.service.pool(&self.key).is_some_and(|pool| pool.metadata.uid.as_ref() == Some(&self.uid));
            if !there {
                return;
            }
            tokio::select! {
                count = asks.recv_many(&mut batch, TOGETHER) => {
                    if count == 0 {
                        return;
                    }
                    self.decide(std::mem::take(&mut batch)).await;
                }
                () = tokio::time::sleep_until(next_look) => {
                    next_look = Instant::now() + look_every;
                    match timeout(2 * PATIENCE, reap::look_around(&self.service, &self.key, &self.uid)).await {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => tracing::debug!(pool = self.key.1, error = %with_causes(&error), "a look failed"),
                        Err(_) => tracing::debug!(pool = self.key.1, "a look took too long"),
                    }
                }
            }
        }
    }

    /// Decides some together, and answers them once it is written.
    async fn decide(&self, asks: Vec<Ask>) {
        let mut failed = Unsure::Busy;
        for attempt in 0..TRIES {
            match timeout(PATIENCE, self.attempt(&asks)).await {
                Ok(Ok(answers)) => {
                    for (ask, answer) in asks.into_iter().zip(answers) {
                        tell(ask, Ok(answer));
                    }
                    return;
                }
                Ok(Err(StoreError::Outdated(_))) => {
                    self.service.metrics.conflict();
                    // Longer with each, and never the same for two replicas.
                    let wait = u64::from(random_byte()) * u64::from(attempt.min(8) + 1) / 4;
                    sleep(Duration::from_millis(wait)).await;
                }
                Ok(Err(error)) => {
                    tracing::warn!(namespace = self.key.0, pool = self.key.1, error = %with_causes(&error), "nothing can be decided");
                    failed = Unsure::Away;
                    break;
                }
                Err(_) => {
                    tracing::warn!(
                        namespace = self.key.0,
                        pool = self.key.1,
                        "nothing can be decided: the API server doesn't answer"
                    );
                    failed = Unsure::Away;
                    break;
                }
            }
        }
        asks.into_iter().for_each(|ask| tell(ask, Err(failed)));
    }

    async fn attempt(&self, asks: &[Ask]) -> Result<Vec<Answer>, StoreError> {
        let client = &self.service.client;
        let Some(pool) = fresh(client, &self.key, &self.uid).await? else {
            return Ok(asks.iter().map(|_| Answer::Paused).collect());
        };
        let held = store::read(client, &pool).await?;
        let now = Timestamp::now();
        let mut ledger = held.ledger.clone();
        let mut pods = Pods::default();
        if asks.iter().any(|ask| matches!(ask, Ask::Admit { .. })) {
            pods = facts(&pool, &agents(client, &pool, now).await?);
            ledger.look(&pods, now.as_second());
        }
        let answers = asks.iter().map(|ask| answer(ask, &pool, &mut ledger, &pods, now)).collect();
        if ledger != held.ledger {
            store::write(client, &pool, &held, &ledger).await?;
        }
        Ok(answers)
    }
}

fn answer(ask: &Ask, pool: &Arc<AgentPool>, ledger: &mut Ledger, pods: &Pods, now: Timestamp) -> Answer {
    match ask {
        Ask::Admit { key, digest, image, .. } => {
            let Some(azure) = &pool.spec.azure else { return Answer::Paused };
            let image = match pod::choose(azure, image.as_deref()) {
                Ok(image) => image.cloned(),
                Err(text) => return Answer::NoImage(text),
            };
            // An agent that was admitted before is finished also while the pool is paused: Azure Pipelines counts on it.
            let stopped = pool.spec.is_paused() || pool.metadata.deletion_timestamp.is_some();
            if stopped && !ledger.is_live(*key) && ledger.over_since(*key).is_none() {
                return Answer::Paused;
            }
            match ledger.admit(*key, *digest, max(pool, now), pods, now.as_second()) {
                Admission::Admitted => Answer::Admitted(Arc::clone(pool), image),
                not => Answer::Not(not),
            }
        }
        Ask::Release { digest, .. } if ledger.knows_acquire(*digest) => Answer::Replayed,
        Ask::Release { key, .. } => {
            ledger.release(*key, now.as_second());
            Answer::Released
        }
        Ask::Forget { key } => {
            ledger.forget(*key);
            Answer::Released
        }
    }
}

fn tell(ask: Ask, answered: Answered) {
    match ask {
        // Who asked may have left.
        Ask::Admit { answer, .. } | Ask::Release { answer, .. } => _ = answer.send(answered),
        Ask::Forget { .. } => {}
    }
}

/// How many agents a pool may have now.
pub(super) fn max(pool: &AgentPool, now: Timestamp) -> i32 {
    // A schedule that can't be read is the controller's to tell.
    let scheduled = schedule::active(&pool.spec.schedules, now).ok().flatten().and_then(|schedule| schedule.max);
    scheduled.unwrap_or(pool.spec.max).min(Azure::MAX)
}

/// The pool as it is now, if it is still the same.
pub(super) async fn fresh(client: &Client, key: &Key, uid: &str) -> Result<Option<Arc<AgentPool>>, StoreError> {
    let api: Api<AgentPool> = Api::namespaced(client.clone(), &key.0);
    let failed = |source| StoreError::Api { verb: "read the AgentPool of", name: key.1.clone(), source };
    let found = api.get_opt(&key.1).await.map_err(failed)?;
    Ok(found.filter(|pool| pool.metadata.uid.as_deref() == Some(uid)).map(Arc::new))
}

/// The pool's agents, those that the controller made too.
pub(super) async fn agents(client: &Client, pool: &AgentPool, now: Timestamp) -> Result<Vec<Agent>, StoreError> {
    let name = pool.meta().name.as_deref().unwrap_or_default();
    let namespace = pool.meta().namespace.as_deref().unwrap_or_default();
    let selector = format!("{}={name},{}={}", names::POOL, names::POOL_KIND, names::POOL_KIND_AGENT);
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let failed = |source| StoreError::Api { verb: "list the pods beside", name: object_names::ledger(pool), source };
    let pods = api.list(&ListParams::default().labels(&selector)).await.map_err(failed)?;
    let pods: Vec<observe::Watched> = pods.items.into_iter().map(Into::into).collect();
    Ok(observe::observe(name, &pool.spec, None, pods.iter(), |_| false, now).agents)
}

/// What of them counts against `max`, as the controller counts it.
pub(super) fn facts(pool: &AgentPool, agents: &[Agent]) -> Pods {
    let mut pods = Pods::default();
    for agent in agents {
        let seen = match agent.state {
            State::Succeeded | State::Overdue => Seen::Ended,
            State::Terminating => Seen::Going,
            _ => Seen::Live,
        };
        match object_names::key_of(pool, &agent.id.name) {
            Some(key) => _ = pods.agents.insert(key, seen),
            None => pods.others += usize::from(seen != Seen::Ended),
        }
    }
    pods
}

/// The standard library seeds each hasher with something random.
fn random_byte() -> u8 {
    RandomState::new().hash_one(0).to_le_bytes()[0]
}
