//! The answer on the wire: the only place that knows what a decision looks like to the API server.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Serialize;

use super::{
    Decision, Denial, ReviewError, Verdict,
    review::{API_VERSION, KIND},
};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Review<'r> {
    api_version: &'static str,
    kind: &'static str,
    response: Response<'r>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'r> {
    uid: &'r str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status<'r>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    warnings: &'r [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    audit_annotations: Option<AuditAnnotations>,
}

/// No `details.causes`: with them kubectl hides the message.
#[derive(Serialize)]
struct Status<'r> {
    code: u16,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'r str,
    message: &'r str,
}

/// Keys that the API server prefixes with the webhook's name.
#[derive(Serialize)]
struct AuditAnnotations {
    layers: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    skipped: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    mode: &'static str,
}

/// The answer to a review that was read.
pub fn respond(uid: &str, decision: &Decision) -> Vec<u8> {
    let status = match &decision.verdict {
        Verdict::Denied(Denial { code, reason, message, .. }) => Some(Status { code: *code, reason, message }),
        Verdict::Allowed | Verdict::Untouched => None,
    };
    let list = |ids: &mut dyn Iterator<Item = String>| ids.collect::<Vec<_>>().join(",");
    let touched = decision.verdict == Verdict::Allowed && (decision.patch.is_some() || !decision.layers.is_empty());
    let audit_annotations = touched.then(|| AuditAnnotations {
        layers: list(&mut decision.layers.iter().map(ToString::to_string)),
        skipped: list(&mut decision.skipped.iter().map(|skip| skip.layer.to_string())),
        mode: if decision.audit { "Audit" } else { "" },
    });
    let response = Response { uid, allowed: status.is_none(), status, warnings: &decision.warnings, audit_annotations };
    let mut answer = write(&Review { api_version: API_VERSION, kind: KIND, response });
    if let Some(patch) = &decision.patch {
        add(patch, &mut answer);
    }
    answer.into_bytes()
}

/// Adds the patch to an answer, in base64, as the API says (kube's own type writes an array of numbers). By hand, for it is
/// nearly all of the answer and needs no look for what has to be escaped.
fn add(patch: &str, answer: &mut String) {
    const END: &str = "}}";
    // INVARIANT: an answer ends with its response, which has fields.
    debug_assert!(answer.ends_with(END));
    answer.truncate(answer.len() - END.len());
    answer.reserve(patch.len().div_ceil(3) * 4 + 64);
    answer.push_str(r#","patchType":"JSONPatch","patch":""#);
    STANDARD.encode_string(patch, answer);
    answer.push('"');
    answer.push_str(END);
}

/// The answer to a body that isn't a review, sent with HTTP 400: the API server goes by the failurePolicy, the text is
/// for the person with curl.
pub fn unreadable(error: &ReviewError, uid: Option<&str>) -> Vec<u8> {
    let message = error.to_string();
    write(&Review {
        api_version: API_VERSION,
        kind: KIND,
        response: Response {
            uid: uid.unwrap_or_default(),
            allowed: false,
            status: Some(Status { code: 400, reason: "BadRequest", message: &message }),
            warnings: &[],
            audit_annotations: None,
        },
    })
    .into_bytes()
}

fn write(review: &Review<'_>) -> String {
    // INVARIANT: strings, numbers and booleans only, which serde_json can't refuse.
    #[allow(clippy::expect_used)]
    serde_json::to_string(review).expect("an answer is JSON")
}
