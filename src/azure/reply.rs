//! What Azure Pipelines is told.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use super::AgentKey;
use crate::telemetry::AzureOutcome;

/// An answer, and what is counted and logged of it.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    status: StatusCode,
    body: Option<Value>,
    pub(super) outcome: AzureOutcome,
    /// Which agent it was about.
    pub(super) agent: Option<AgentKey>,
}

/// Why a call that is in order gets no agent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Declined {
    Ended,
    Going,
    Max,
    Paused,
    Quota,
    Refused,
    Released,
}

impl Declined {
    fn told(self) -> (&'static str, AzureOutcome) {
        match self {
            Self::Ended => ("the agent ended before", AzureOutcome::DeclinedReleased),
            Self::Going => ("the agent's pod is going", AzureOutcome::DeclinedReleased),
            Self::Max => ("the pool is at its max", AzureOutcome::DeclinedMax),
            Self::Paused => ("the pool is paused", AzureOutcome::DeclinedPaused),
            Self::Quota => ("a ResourceQuota of the pool's namespace is used up", AzureOutcome::DeclinedQuota),
            Self::Refused => {
                ("the cluster refused the agent's pod; the AgentPool's events say why", AzureOutcome::DeclinedRefused)
            }
            Self::Released => ("the agent was released before", AzureOutcome::DeclinedReleased),
        }
    }
}

impl Reply {
    fn new(status: StatusCode, body: Option<Value>, outcome: AzureOutcome) -> Self {
        Self { status, body, outcome, agent: None }
    }

    /// An agent is coming. What is in `agentData` comes back with the release.
    pub(super) fn accepted(pool: &str, pod: &str) -> Self {
        let body = json!({"accepted": true, "responseType": "Success", "errorMessage": "",
                          "agentData": {"pool": pool, "pod": pod}});
        Self::new(StatusCode::OK, Some(body), AzureOutcome::Accepted)
    }

    /// No agent is coming.
    pub(super) fn declined(why: Declined) -> Self {
        let (text, outcome) = why.told();
        let body = json!({"accepted": false, "responseType": "Fail", "errorMessage": text});
        Self::new(StatusCode::OK, Some(body), outcome)
    }

    /// The agent may go, or is gone.
    pub(super) fn released() -> Self {
        let body = json!({"status": "Success", "message": "released"});
        Self::new(StatusCode::ACCEPTED, Some(body), AzureOutcome::Released)
    }

    /// What was asked for.
    pub(super) fn told(body: Value) -> Self {
        Self::new(StatusCode::OK, Some(body), AzureOutcome::Told)
    }

    /// There is no such agent.
    pub(super) fn unknown_agent() -> Self {
        Self::new(StatusCode::NO_CONTENT, None, AzureOutcome::Unknown)
    }

    /// There is no such definition.
    pub(super) fn unknown_definition() -> Self {
        Self::error(StatusCode::NOT_FOUND, "this pool has no such agent definition", AzureOutcome::Unknown)
    }

    /// The call can't be understood or carried out as it is.
    pub(super) fn bad_request(error: &impl ToString) -> Self {
        Self::error(StatusCode::BAD_REQUEST, &error.to_string(), AzureOutcome::BadRequest)
    }

    /// The caller isn't known, or the call isn't for this pool.
    pub(super) fn forbidden(error: &impl ToString) -> Self {
        Self::error(StatusCode::FORBIDDEN, &error.to_string(), AzureOutcome::Forbidden)
    }

    /// There are too many calls.
    pub(super) fn overload() -> Self {
        Self::error(
            StatusCode::TOO_MANY_REQUESTS,
            "too many calls for this pool; try again in a second",
            AzureOutcome::Overload,
        )
    }

    /// It can't be done now.
    pub(super) fn unavailable(text: &str) -> Self {
        Self::error(StatusCode::SERVICE_UNAVAILABLE, text, AzureOutcome::Unavailable)
    }

    /// About this agent.
    pub(super) fn about(self, agent: AgentKey) -> Self {
        Self { agent: Some(agent), ..self }
    }

    fn error(status: StatusCode, text: &str, outcome: AzureOutcome) -> Self {
        Self::new(status, Some(json!({"error": text})), outcome)
    }

    /// The status code.
    pub(super) fn status(&self) -> u16 {
        self.status.as_u16()
    }
}

impl IntoResponse for Reply {
    fn into_response(self) -> Response {
        let status = self.status;
        let mut response = match self.body {
            Some(body) => (status, Json(body)).into_response(),
            None => status.into_response(),
        };
        if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
