//! The webhook's endpoints: the rim around [`decide`], and the only asynchronous file of this folder.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use axum::{
    Router,
    body::Bytes,
    extract::{DefaultBodyLimit, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::watch,
};

use super::{
    Decision, Policy, Request, Verdict, check_layer, decide, decide::fault_patch, object::Pod, respond, review,
};
use crate::{
    layers::Snapshot,
    names,
    telemetry::{Decision as Outcome, Metrics},
};

/// From how many bytes a review is decided beside the runtime's own work, so that a huge pod doesn't hold up others:
/// about a millisecond of work.
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

impl Handler {
    /// The endpoints as a router, to be served by `server`.
    pub fn router(self) -> Router {
        let mutate = |State(handler): State<Self>, body: Bytes| async move { handler.answer(Ask::Mutate, &body) };
        let validate = |State(handler): State<Self>, body: Bytes| async move { handler.answer(Ask::Validate, &body) };
        Router::new()
            .route(names::PATH_MUTATE, post(mutate))
            .route(names::PATH_VALIDATE, post(validate))
            // The server has its own, lower limit and answers it in words.
            .layer(DefaultBodyLimit::disable())
            .with_state(self)
    }

    fn answer(&self, ask: Ask, body: &[u8]) -> Response {
        let alone = Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread;
        if body.len() < LARGE || alone {
            return self.answer_now(ask, body);
        }
        tokio::task::block_in_place(|| self.answer_now(ask, body))
    }

    fn answer_now(&self, ask: Ask, body: &[u8]) -> Response {
        let request = match review::parse(body) {
            Ok(request) => request,
            Err((error, uid)) => {
                tracing::warn!(error = %error, "review refused");
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
        let skipped = decision.skipped.iter().map(|skip| skip.layer.to_string()).collect::<Vec<_>>().join(",");
        let level_up = denial.is_some() || !decision.skipped.is_empty();
        let layers = decision.layers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let asked = match ask {
            Ask::Mutate => "mutate",
            Ask::Validate => "validate",
        };
        if level_up {
            tracing::info!(
                asked, outcome, uid = %request.uid, kind = %request.kind, namespace = %request.namespace,
                name = %request.name, layers, skipped, denial, "decided"
            );
        } else {
            tracing::debug!(
                asked, outcome, uid = %request.uid, kind = %request.kind, namespace = %request.namespace,
                name = %request.name, layers, "decided"
            );
        }
    }
}

/// A bug of ours never blocks a pod: it is made with a stamp that says what happened.
fn after_panic(request: &Request<'_>, policy: &Policy) -> Decision {
    let untouched = Decision::untouched();
    let is_pod = request.kind == "Pod" && request.operation == "CREATE";
    let pod = request.object.filter(|_| is_pod).and_then(|text| Pod::parse(text).ok());
    let pod = pod.filter(|pod| policy.admits(&pod.facts(&request.namespace)));
    let patch = catch_unwind(AssertUnwindSafe(|| pod.as_ref().and_then(fault_patch))).unwrap_or_default();
    Decision { patch, fault: Some("panic while deciding".into()), ..untouched }
}

fn json(status: StatusCode, body: Vec<u8>) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}
