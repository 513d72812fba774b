use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::StreamExt;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions},
    core::GroupVersionKind,
    runtime::events::{Event, EventType, Recorder},
};
use serde_json::json;
use tokio::{sync::watch, task::JoinSet};

use super::{
    api::{AgentPool, AgentPoolStatus, Key},
    children::{Child, children},
    core::{Action, Core, Outcome, Seen},
    observe::{newest, observe},
    report,
    shape::{Placeholders, Shape, ShapeError, shape},
    size::{Decision, Shapeless, View},
    world::World,
};
use crate::{
    admission::Policy,
    cluster::{event_note, is_over_quota, is_owned_by},
    layers::Snapshot,
    names,
    telemetry::{PoolMetrics, PoolNumbers},
};

/// How long events are gathered before the next decision: a burst of them is one, and demand still becomes pods within
/// a quarter of a second.
const GATHER: Duration = Duration::from_millis(50);
/// How many writes of one pool are under way at once: enough to fill a pool within seconds, too few to be throttled.
const WRITES_AT_ONCE: usize = 8;
/// How long a template that the API server refused isn't tried again, unless it changes.
const REFUSED_FOR: Duration = Duration::from_secs(60);
/// How often children are put right even if nobody was seen to change them.
const CHILDREN_AGAIN: Duration = Duration::from_secs(60);

/// How often a status is written at most: people and HPA look no oftener, and a pool at work would write one for each pod.
const STATUS_EVERY: Duration = Duration::from_secs(1);

/// What all pools' tasks share.
pub struct Shared {
    /// The API server.
    pub client: Client,
    /// What was seen.
    pub world: Arc<World>,
    /// The layers in force.
    pub snapshots: watch::Receiver<Option<Arc<Snapshot>>>,
    /// How job pods are decided.
    pub policy: Arc<Policy>,
    /// Since when this process leads.
    pub leading: watch::Receiver<Option<Timestamp>>,
    /// How long a new leader deletes nothing.
    pub settle: SignedDuration,
    /// What all placeholders have.
    pub placeholders: Placeholders,
    /// Counts.
    pub metrics: PoolMetrics,
    /// Events.
    pub recorder: Recorder,
}

struct Task {
    shared: Arc<Shared>,
    key: Key,
    core: Core,
    status: Option<AgentPoolStatus>,
    /// When a status was last written.
    wrote_status: Option<Instant>,
    /// Status and event on their way, which no pod waits for. They end with the task: nothing is told by one that leads no
    /// more.
    telling: JoinSet<Option<AgentPoolStatus>>,
    told: String,
    /// The version of a template that was refused, why, and when.
    refused: Option<(String, String, Instant)>,
    /// Whether busy agents get the annotations that keep autoscalers away.
    annotates: bool,
    /// For which generation children were put right, and when.
    children: Option<(Option<i64>, Instant)>,
}

impl Shared {
    /// What is known of a pool right now, and the shape of its pods.
    pub fn look(&self, pool: &AgentPool, key: &Key, now: Timestamp) -> (Seen, Result<Shape, ShapeError>) {
        let pods = self.world.pods(&key.0);
        let snapshot = self.snapshots.borrow().clone();
        let (view, cordoned) = (self.world.view(&key.0), self.world.cordoned());
        let made = match &snapshot {
            Some(snapshot) => {
                let sample = newest(&pool.spec, pods.iter().map(AsRef::as_ref));
                shape(pool, sample, snapshot, &self.policy, &self.placeholders)
            }
            None => Err(ShapeError::NoSample),
        };
        let version = made.as_ref().ok().filter(|made| made.rotates).map(|made| made.version.clone());
        let cordons = |node: &str| cordoned.contains(node);
        let pods = pods.iter().map(AsRef::as_ref);
        let mut seen = observe(&key.1, &pool.spec, version.as_deref(), pods, cordons, now);
        // The layers are part of the view: without them nobody knows what placeholders look like.
        seen.view = if snapshot.is_none() { View::Unsynced } else { view };
        let since = *self.leading.borrow();
        seen.settled = since.is_some_and(|since| now.duration_since(since) >= self.settle) && self.world.is_synced();
        seen.shapeless = match &made {
            Ok(_) => None,
            Err(ShapeError::NoSample) => Some(Shapeless::NoSample),
            Err(error) => Some(Shapeless::InvalidTemplate(error.to_string())),
        };
        (seen, made)
    }
}

/// Keeps one pool right until it is gone, whenever this process leads.
pub(super) async fn keep(shared: Arc<Shared>, key: Key) {
    let wake = shared.world.wake_of(&key);
    let mut leading = shared.leading.clone();
    let metrics = shared.metrics.clone();
    let (core, status, told) = (Core::default(), None, String::new());
    let telling = JoinSet::new();
    let (wrote_status, refused, children) = (None, None, None);
    let mut task = Task { shared, key, core, status, wrote_status, telling, told, refused, annotates: true, children };
    let mut again = Duration::ZERO;
    // Another pool of the same name has another task.
    let uid = task.shared.world.pool(&task.key).and_then(|pool| pool.metadata.uid.clone());
    loop {
        tokio::select! {
            () = wake.notified() => tokio::time::sleep(GATHER).await,
            () = tokio::time::sleep(again) => {}
            changed = leading.changed() => if changed.is_err() { return },
        }
        if leading.borrow_and_update().is_none() {
            again = Duration::from_secs(3600);
            continue;
        }
        let Some(pool) = task.shared.world.pool(&task.key).filter(|pool| pool.metadata.uid == uid) else {
            metrics.forget(&task.key);
            return;
        };
        again = Duration::try_from(task.turn(&pool).await).unwrap_or(Duration::from_secs(1));
    }
}

impl Task {
    /// Looks, decides, writes.
    async fn turn(&mut self, pool: &AgentPool) -> SignedDuration {
        let began = Instant::now();
        let now = Timestamp::now();
        if pool.metadata.deletion_timestamp.is_some() {
            // Its pods go with it: the garbage collector's work.
            return SignedDuration::from_secs(15);
        }
        let (mut seen, made) = self.shared.look(pool, &self.key, now);
        if let (Ok(shape), Some((version, why, when))) = (&made, &self.refused)
            && *version == shape.version
            && when.elapsed() < REFUSED_FOR
        {
            seen.shapeless = Some(Shapeless::InvalidTemplate(why.clone()));
        }
        let uid = pool.metadata.uid.as_deref().unwrap_or_default();
        let (decision, actions) = self.core.plan(uid, &self.key.1, &pool.spec, &seen, now);
        let wrote = !actions.is_empty();
        let shape = made.ok();
        self.annotates = pool.spec.annotates();
        self.write(actions, shape.as_ref()).await;
        if seen.view == View::Fresh {
            self.put_children_right(pool).await;
        }
        let untold = self.tell(pool, &decision, now);
        self.shared.metrics.decided(&self.key, &numbers(&decision), began.elapsed());
        let again = untold.unwrap_or(decision.again).min(decision.again);
        if wrote { SignedDuration::from_millis(500).min(again) } else { again }
    }

    /// Writes what was planned, the first create alone: what a quota refuses once it refuses again.
    async fn write(&mut self, actions: Vec<Action>, shape: Option<&Shape>) {
        let (creates, others): (Vec<_>, Vec<_>) =
            actions.into_iter().partition(|action| matches!(action, Action::Create(_)));
        for chunk in others.chunks(WRITES_AT_ONCE) {
            self.write_chunk(chunk, shape).await;
        }
        let mut left = creates.as_slice();
        let mut size = 1;
        while !left.is_empty() {
            let (chunk, rest) = left.split_at(size.min(left.len()));
            let fine = self.write_chunk(chunk, shape).await;
            left = rest;
            size = WRITES_AT_ONCE;
            if !fine {
                left.iter().for_each(|action| self.core.dropped(action));
                return;
            }
        }
    }

    /// Writes some at once; whether all went well.
    async fn write_chunk(&mut self, chunk: &[Action], shape: Option<&Shape>) -> bool {
        let (shared, namespace) = (&self.shared, &self.key.0);
        let annotates = self.annotates;
        let writes = chunk.iter().cloned().map(|action| async move {
            let answer = write(shared, namespace, &action, shape, annotates).await;
            (action, answer)
        });
        let answers: Vec<_> = futures::stream::iter(writes).buffer_unordered(WRITES_AT_ONCE).collect().await;
        let mut fine = true;
        for (action, answer) in answers {
            let outcome = match &answer {
                Ok(()) => Outcome::Done,
                Err(error) => outcome_of(error),
            };
            if let Err(error) = &answer
                && outcome != Outcome::Conflict
            {
                tracing::warn!(pool = self.key.1, namespace = self.key.0, ?outcome, error = %error, "a write failed");
            }
            if let (Outcome::Refused, Action::Create(_), Some(shape), Err(error)) = (outcome, &action, shape, &answer) {
                self.refused = Some((shape.version.clone(), error.to_string(), Instant::now()));
            }
            fine &= matches!(outcome, Outcome::Done | Outcome::Exists | Outcome::Conflict);
            self.core.answered(&action, outcome, Timestamp::now());
        }
        fine
    }

    /// Applies the pool's other objects: our own fields only, and what somebody changed in them is put back.
    async fn put_children_right(&mut self, pool: &AgentPool) {
        let generation = pool.metadata.generation;
        let strayed = self.shared.world.take_strayed(&self.key);
        let done = self.children.is_some_and(|(of, when)| of == generation && when.elapsed() < CHILDREN_AGAIN);
        if done && !strayed {
            return;
        }
        let mut fine = true;
        for child in children(pool) {
            if let Err(error) = put_right(&self.shared, pool, &self.key.0, &child).await {
                tracing::warn!(pool = self.key.1, kind = child.kind, error = %error, "a child can't be put right");
                fine = false;
            }
        }
        if fine {
            self.children = Some((generation, Instant::now()));
        }
    }

    /// Has the status and an event written, where something changed. Gives when to come again if a status is to be written
    /// that couldn't be yet.
    fn tell(&mut self, pool: &AgentPool, decision: &Decision, now: Timestamp) -> Option<SignedDuration> {
        while let Some(done) = self.telling.try_join_next() {
            if let Ok(Some(status)) = done {
                self.status = Some(status);
            }
        }
        let before = self.status.clone().or_else(|| pool.status.clone()).unwrap_or_default();
        let status = report::status(pool, decision, &before, now);
        let wait = self.wrote_status.map_or(Duration::ZERO, |when| STATUS_EVERY.saturating_sub(when.elapsed()));
        let mut untold = None;
        if self.status.as_ref() != Some(&status) {
            if wait.is_zero() && self.telling.is_empty() {
                self.wrote_status = Some(Instant::now());
                self.telling.spawn(write_status(self.shared.clone(), self.key.clone(), status));
                // Whether it was written is looked at then.
                untold = SignedDuration::try_from(STATUS_EVERY).ok();
            } else {
                untold = SignedDuration::try_from(wait.max(GATHER)).ok();
            }
        }
        let (reason, message) = report::why(decision);
        if reason != self.told {
            let type_ = if decision.degraded.is_some() { EventType::Warning } else { EventType::Normal };
            let note = Some(event_note(&message));
            let event = Event { type_, reason: reason.clone(), note, action: "Scale".into(), secondary: None };
            let (shared, object) = (self.shared.clone(), pool.object_ref(&()));
            self.telling.spawn(async move {
                shared.metrics.wrote("event");
                if let Err(error) = shared.recorder.publish(&event, &object).await {
                    tracing::debug!(error = %error, "an event can't be written");
                }
                None
            });
            self.told = reason;
        }
        untold
    }
}

/// Writes a pool's status; gives it back if that went well.
async fn write_status(shared: Arc<Shared>, key: Key, status: AgentPoolStatus) -> Option<AgentPoolStatus> {
    let api: Api<AgentPool> = Api::namespaced(shared.client.clone(), &key.0);
    let body = json!({"apiVersion": AgentPool::api_version(&()), "kind": AgentPool::kind(&()), "status": status});
    let params = PatchParams::apply(names::FIELD_MANAGER_POOL_STATUS).force();
    shared.metrics.wrote("status");
    match api.patch_status(&key.1, &params, &Patch::Apply(body)).await {
        Ok(_) => Some(status),
        Err(error) => {
            tracing::warn!(pool = key.1, error = %error, "the status can't be written");
            None
        }
    }
}

async fn write(
    shared: &Shared,
    namespace: &str,
    action: &Action,
    shape: Option<&Shape>,
    annotates: bool,
) -> Result<(), kube::Error> {
    let api: Api<DynamicObject> =
        Api::namespaced_with(shared.client.clone(), namespace, &ApiResource::erase::<Pod>(&()));
    let mark = |id: &super::size::Id, labels: serde_json::Value, annotations: serde_json::Value| json!({"metadata": {"uid": id.uid, "resourceVersion": id.version, "labels": labels, "annotations": annotations}});
    let params = PatchParams { field_manager: Some(names::FIELD_MANAGER_POOLS.into()), ..PatchParams::default() };
    let (id, body) = match action {
        Action::Create(name) => {
            let Some(shape) = shape else { return Ok(()) };
            let mut pod = shape.pod.clone();
            pod["metadata"]["name"] = json!(name);
            let pod: DynamicObject = serde_json::from_value(pod).map_err(kube::Error::SerdeError)?;
            shared.metrics.wrote("create");
            let params = PostParams { field_manager: Some(names::FIELD_MANAGER_POOLS.into()), ..PostParams::default() };
            return api.create(&params, &pod).await.map(|_| ());
        }
        Action::Delete(id) => {
            let preconditions = Preconditions { uid: Some(id.uid.clone()), resource_version: Some(id.version.clone()) };
            shared.metrics.wrote("delete");
            let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            return api.delete(&id.name, &params).await.map(|_| ());
        }
        Action::Drain(id) => (id, mark(id, json!({names::POOL_DRAINING: "true"}), json!({}))),
        Action::Undrain(id) => (id, mark(id, json!({names::POOL_DRAINING: null}), json!({}))),
        Action::MarkBusy(id, true) => {
            let keep_off = json!({names::SAFE_TO_EVICT: "false", names::DO_NOT_DISRUPT: "true"});
            let annotations = if annotates { keep_off } else { json!({}) };
            (id, mark(id, json!({names::POOL_BUSY: "true"}), annotations))
        }
        Action::MarkBusy(id, false) => {
            let annotations = json!({names::SAFE_TO_EVICT: null, names::DO_NOT_DISRUPT: null});
            (id, mark(id, json!({names::POOL_BUSY: null}), annotations))
        }
    };
    shared.metrics.wrote("patch");
    api.patch(&id.name, &params, &Patch::Merge(body)).await.map(|_| ())
}

fn numbers(decision: &Decision) -> PoolNumbers {
    let counts = decision.counts;
    PoolNumbers {
        pods: [
            counts.starting,
            counts.busy,
            counts.idle,
            counts.stuck,
            counts.failed,
            counts.terminating,
            counts.overdue,
        ],
        desired: decision.desired,
        queued: counts.queued,
        limited: decision.limited.map(super::size::Limited::reason),
        start_failures: decision.start_failures.iter().map(|failure| failure.reason()).collect(),
        up: decision.create,
        down: i32::try_from(decision.delete.len()).unwrap_or(i32::MAX),
    }
}

/// What an error of the API server means for the plan.
fn outcome_of(error: &kube::Error) -> Outcome {
    let kube::Error::Api(status) = error else { return Outcome::Failed };
    match status.code {
        409 if status.reason == "AlreadyExists" => Outcome::Exists,
        404 | 409 => Outcome::Conflict,
        _ if is_over_quota(status) => Outcome::Quota,
        429 => Outcome::Overloaded,
        500.. => Outcome::Failed,
        _ => Outcome::Refused,
    }
}

async fn put_right(shared: &Shared, pool: &AgentPool, namespace: &str, child: &Child) -> Result<(), kube::Error> {
    let (group, version) = child.api_version.split_once('/').unwrap_or(("", child.api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, child.kind));
    let api: Api<DynamicObject> = Api::namespaced_with(shared.client.clone(), namespace, &resource);
    match &child.object {
        Some(object) => {
            if child.yields
                && let Some(found) = api.get_metadata_opt(&child.name).await?
                && !is_owned_by(&found.metadata, pool.metadata.uid.as_deref())
            {
                tracing::debug!(pool = pool.name_any(), name = child.name, "somebody else has an object of that name");
                return Ok(());
            }
            let params = PatchParams::apply(names::FIELD_MANAGER_POOLS).force();
            shared.metrics.wrote("apply");
            api.patch(&child.name, &params, &Patch::Apply(object)).await.map(|_| ())
        }
        None => {
            let Some(found) = api.get_metadata_opt(&child.name).await? else { return Ok(()) };
            // Only what is this pool's: somebody else may have one of that name.
            let ours = is_owned_by(&found.metadata, pool.metadata.uid.as_deref());
            if ours && found.metadata.deletion_timestamp.is_none() {
                shared.metrics.wrote("delete");
                api.delete(&child.name, &DeleteParams::default()).await?;
            }
            Ok(())
        }
    }
}
