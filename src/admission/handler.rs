//! The webhook's endpoints: the rim around [`decide`], and the only asynchronous file of this folder.

use std::{
    num::NonZero,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
    thread,
};

use axum::{
    Router,
    body::Bytes,
    extract::{DefaultBodyLimit, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
};
use tokio::sync::{Semaphore, watch};

use super::{
    Decision, Policy, Request, Verdict, check_layer, decide,
    decide::only_stamped,
    object::{Pod, generate_name},
    respond, review,
};
use crate::{
    layers::{Kind, Snapshot, Standing},
    names,
    telemetry::{Decision as Outcome, Metrics},
};

/// From how many bytes a review is decided beside the runtime's own work, so that a huge pod doesn't hold up others:
/// about a millisecond of work. As many of them as there are cores are decided at the same time; the next wait their
/// turn, or until their caller's time is over.
const LARGE: usize = 128 << 10;

/// What the endpoints need.
#[derive(Clone, Debug)]
pub struct Handler {
    /// The layers in force; `None` until the first complete set is there.
    pub snapshots: watch::Receiver<Option<Arc<Snapshot>>>,
    /// The flags.
    pub policy: Arc<Policy>,
    /// Where decisions are counted.
    pub metrics: Metrics,
}

/// Which of the two webhooks is asked.
#[derive(Clone, Copy, Debug)]
enum Ask {
    Mutate,
    Validate,
}

/// The handler with the turns of those who bring large reviews.
#[derive(Clone, Debug)]
struct Endpoints {
    handler: Handler,
    turns: Arc<Semaphore>,
}

impl Handler {
    /// The endpoints as a router, to be served by `server`.
    pub fn router(self) -> Router {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let endpoints = Endpoints { handler: self, turns: Arc::new(Semaphore::new(cores)) };
        let mutate = |State(it): State<Endpoints>, body: Bytes| async move { it.answer(Ask::Mutate, body).await };
        let validate = |State(it): State<Endpoints>, body: Bytes| async move { it.answer(Ask::Validate, body).await };
        Router::new()
            .route(names::PATH_MUTATE, post(mutate))
            .route(names::PATH_VALIDATE, post(validate))
            // The server has its own, lower limit and answers it in words.
            .layer(DefaultBodyLimit::disable())
            .with_state(endpoints)
    }

    fn answer_now(&self, ask: Ask, body: &[u8]) -> Response {
        let request = match review::parse(body) {
            Ok(request) => request,
            Err((error, uid)) => {
                tracing::warn!(error = error.whereabouts(), "review refused");
                return json(StatusCode::BAD_REQUEST, super::unreadable(&error, uid.as_deref()));
            }
        };
        let Some(snapshot) = self.snapshots.borrow().clone() else {
            return (StatusCode::SERVICE_UNAVAILABLE, "podlayer has not read its layers yet\n").into_response();
        };
        let work = AssertUnwindSafe(|| match ask {
            Ask::Mutate => decide(&request, &snapshot, &self.policy),
            Ask::Validate => check_layer(&request, &snapshot, &self.policy),
        });
        let decision = catch_unwind(work).unwrap_or_else(|_| {
            self.metrics.panicked();
            after_panic(&request, &self.policy)
        });
        self.tell(ask, &request, &decision);
        json(StatusCode::OK, respond(&request.uid, &decision))
    }

    /// One log line and one count for each decision; never a value out of the object.
    fn tell(&self, ask: Ask, request: &Request<'_>, decision: &Decision) {
        let outcome = match (&decision.verdict, &decision.fault) {
            (_, Some(_)) => Outcome::Failed,
            (Verdict::Denied(_), _) => Outcome::Denied,
            (Verdict::Untouched, _) => Outcome::Skipped,
            (Verdict::Allowed, _) if decision.layers.is_empty() || decision.audit => Outcome::Unchanged,
            // A check changes nothing itself; the pod's own call is counted when it comes.
            (Verdict::Allowed, _) if matches!(ask, Ask::Validate) => Outcome::Unchanged,
            (Verdict::Allowed, _) => Outcome::Patched,
        };
        self.metrics.decided(outcome);
        decision.skipped.iter().for_each(|_| self.metrics.layer_failed());
        if matches!(ask, Ask::Mutate) {
            self.count(request, decision);
        }
        if decision.unknown_class {
            self.metrics.unknown_class();
        }
        let outcome = outcome.as_str();
        if let Some(fault) = &decision.fault {
            tracing::error!(uid = %request.uid, namespace = %request.namespace, fault = %fault, "fault, please report it");
        }
        let denial = match &decision.verdict {
            Verdict::Denied(denial) => Some(tracing::field::display(&denial.whereabouts)),
            Verdict::Allowed | Verdict::Untouched => None,
        };
        let level_up = denial.is_some() || !decision.skipped.is_empty();
        let generated = || generate_name(request.object.unwrap_or_default());
        let layers = || decision.layers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let asked = match ask {
            Ask::Mutate => "mutate",
            Ask::Validate => "validate",
        };
        if level_up {
            let skipped = decision.skipped.iter().map(|skip| skip.layer.to_string()).collect::<Vec<_>>().join(",");
            tracing::info!(
                asked, outcome, uid = %request.uid, kind = %request.kind, namespace = %request.namespace,
                name = %request.name, generate_name = %generated(), layers = layers(), skipped, denial, "decided"
            );
        } else {
            // Fields are made only where somebody asked for this level.
            tracing::debug!(
                asked, outcome, uid = %request.uid, kind = %request.kind, namespace = %request.namespace,
                name = %request.name, generate_name = %generated(), layers = layers(), "decided"
            );
        }
    }

    /// What a change is made of, and which layers made it.
    fn count(&self, request: &Request<'_>, decision: &Decision) {
        if decision.fault.is_some() && decision.verdict == Verdict::Allowed {
            self.metrics.self_check_failed();
        }
        if request.dry_run {
            // Nothing will come of it.
            return;
        }
        if decision.patch.is_some() {
            self.metrics.patched(decision.operations);
        }
        for layer in decision.layers.iter().filter(|layer| layer.kind != Kind::Step) {
            let namespace = layer.kind.of_namespace().then_some(request.namespace.as_ref());
            self.metrics.layer_applied(&Standing::key(layer, namespace));
        }
    }
}

impl Endpoints {
    async fn answer(self, ask: Ask, body: Bytes) -> Response {
        let Self { handler, turns } = self;
        if body.len() < LARGE {
            return handler.answer_now(ask, &body);
        }
        // The turn goes with the work: a caller whose time is over leaves, the work goes on to its end.
        let turn = turns.acquire_owned().await;
        let work = move || {
            let _turn = turn;
            handler.answer_now(ask, &body)
        };
        match tokio::task::spawn_blocking(work).await {
            Ok(response) => response,
            Err(failed) => match failed.try_into_panic() {
                // The server answers and counts it.
                Ok(panic) => resume_unwind(panic),
                Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "podlayer is ending\n").into_response(),
            },
        }
    }
}

/// A bug of ours never blocks a pod: it is made with a stamp that says what happened.
fn after_panic(request: &Request<'_>, policy: &Policy) -> Decision {
    let is_pod = request.kind == "Pod" && request.operation == "CREATE";
    let pod = request.object.filter(|_| is_pod).and_then(|text| Pod::parse(text).ok());
    let pod = pod.filter(|pod| policy.admits(&pod.facts(&request.namespace)));
    let stamped = catch_unwind(AssertUnwindSafe(|| pod.as_ref().map(only_stamped)));
    Decision {
        fault: Some("panic while deciding".into()),
        ..stamped.ok().flatten().unwrap_or_else(Decision::untouched)
    }
}

fn json(status: StatusCode, body: Vec<u8>) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}
