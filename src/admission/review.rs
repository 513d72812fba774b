//! The wire form of an AdmissionReview, as far as it is read.
//!
//! Own types, because the object must stay raw JSON, and because the `uid` must be found even in a review that can't be
//! read otherwise: an answer without it is thrown away by the API server (`spec.request.uid`, admission.k8s.io/v1).

use std::borrow::Cow;

use serde::Deserialize;

use super::object::{Object, Pod, once, raw};
use crate::value::Reader;

/// The API version and kind that requests and answers carry.
pub const API_VERSION: &str = "admission.k8s.io/v1";
/// See [`API_VERSION`].
pub const KIND: &str = "AdmissionReview";

/// What is asked.
#[derive(Debug)]
pub struct Request<'r> {
    /// Must stand in the answer.
    pub uid: Cow<'r, str>,
    /// `Pod`, `Job`, `ConfigMap`…
    pub kind: Cow<'r, str>,
    /// Its API group, empty for pods.
    pub group: Cow<'r, str>,
    /// `status`, `ephemeralcontainers`…; empty for the object itself.
    pub sub_resource: Cow<'r, str>,
    /// The namespace; the object's own may be empty.
    pub namespace: Cow<'r, str>,
    /// The object's name; empty where the API server will generate one.
    pub name: Cow<'r, str>,
    /// `CREATE`, `UPDATE`, `DELETE`, `CONNECT`.
    pub operation: Cow<'r, str>,
    /// Whether nothing will be stored.
    pub dry_run: bool,
    /// The object as JSON text; absent on DELETE.
    pub object: Option<&'r str>,
    /// The same where it is a pod that could be read on the way to its end, so that nobody has to pass over it twice.
    pub(super) pod: Option<Pod<'r>>,
}

/// Why a review can't be read.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// It is no JSON, or not of a review's shape.
    #[error("the body is not a readable AdmissionReview: {0}")]
    Json(#[source] serde_json::Error),
    /// It is something else, or another version.
    #[error("expected {API_VERSION} {KIND}, got {api_version} {kind}")]
    Kind {
        /// Its `apiVersion`.
        api_version: String,
        /// Its `kind`.
        kind: String,
    },
    /// It has no request.
    #[error("the AdmissionReview has no request")]
    NoRequest,
    /// The request has no uid.
    #[error("the request has no uid")]
    NoUid,
}

impl ReviewError {
    /// For the log: without the words of a body that may hold a pod.
    pub fn whereabouts(&self) -> String {
        match self {
            Self::Json(error) => {
                let (line, column) = (error.line(), error.column());
                format!("the body is not a readable AdmissionReview at line {line} column {column}")
            }
            Self::Kind { .. } => format!("the body is no {API_VERSION} {KIND}"),
            Self::NoRequest | Self::NoUid => self.to_string(),
        }
    }
}

#[derive(Deserialize)]
struct RawReview<'r> {
    #[serde(borrow, default)]
    kind: Cow<'r, str>,
    #[serde(borrow, default, rename = "apiVersion")]
    api_version: Cow<'r, str>,
    #[serde(borrow)]
    request: Option<Object<RawRequest<'r>>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawRequest<'r> {
    #[serde(borrow, default)]
    uid: Cow<'r, str>,
    #[serde(borrow, default)]
    kind: Option<Object<RawKind<'r>>>,
    #[serde(borrow, default)]
    sub_resource: Option<Cow<'r, str>>,
    #[serde(borrow, default)]
    namespace: Option<Cow<'r, str>>,
    #[serde(borrow, default)]
    name: Option<Cow<'r, str>>,
    #[serde(borrow, default)]
    operation: Cow<'r, str>,
    #[serde(default)]
    dry_run: Option<bool>,
    #[serde(borrow, default, deserialize_with = "raw")]
    object: Option<&'r str>,
    #[serde(skip)]
    pod: Option<Pod<'r>>,
}

#[derive(Default, Deserialize)]
struct RawKind<'r> {
    #[serde(borrow, default)]
    group: Cow<'r, str>,
    #[serde(borrow, default)]
    kind: Cow<'r, str>,
}

/// Reads a review.
///
/// # Errors
/// [`ReviewError`], and the uid if one could be found in spite of it.
pub fn parse(body: &[u8]) -> Result<Request<'_>, (ReviewError, Option<String>)> {
    let review = RawReview::read(body).map_or_else(|| serde_json::from_slice(body).map(|Object(review)| review), Ok);
    let review: RawReview<'_> = review.map_err(|error| (ReviewError::Json(error), uid(body)))?;
    let uid = review.request.as_ref().map(|request| request.0.uid.to_string()).filter(|uid| !uid.is_empty());
    if review.kind != KIND || review.api_version != API_VERSION {
        let shown = |text: Cow<'_, str>, what: &str| {
            if text.is_empty() { format!("no {what}") } else { text.chars().take(80).collect() }
        };
        let (api_version, kind) = (shown(review.api_version, "apiVersion"), shown(review.kind, "kind"));
        return Err((ReviewError::Kind { api_version, kind }, uid));
    }
    let Object(request) = review.request.ok_or((ReviewError::NoRequest, None))?;
    if uid.is_none() {
        return Err((ReviewError::NoUid, None));
    }
    let RawRequest { uid, kind, sub_resource, namespace, name, operation, dry_run, object, pod } = request;
    let kind = kind.map_or_else(RawKind::default, |Object(kind)| kind);
    Ok(Request {
        uid,
        kind: kind.kind,
        group: kind.group,
        sub_resource: sub_resource.unwrap_or_default(),
        namespace: namespace.unwrap_or_default(),
        name: name.unwrap_or_default(),
        operation,
        dry_run: dry_run.unwrap_or_default(),
        object: object.filter(|text| *text != "null"),
        pod,
    })
}

/// What [`Reader`] gives up on, and all that isn't as usual, is left to serde_json.
impl<'r> RawReview<'r> {
    fn read(body: &'r [u8]) -> Option<Self> {
        let mut reader = Reader::new(str::from_utf8(body).ok()?);
        let (mut kind, mut api_version, mut request) = (None, None, None);
        reader.fields(|reader, key| match key {
            "kind" => once(&mut kind, reader.text()),
            "apiVersion" => once(&mut api_version, reader.text()),
            "request" => once(&mut request, RawRequest::read(reader).map(Object)),
            _ => reader.skip(),
        })?;
        let review = Self { kind: kind.unwrap_or_default(), api_version: api_version.unwrap_or_default(), request };
        reader.is_at_end().then_some(review)
    }
}

impl<'r> RawRequest<'r> {
    fn read(reader: &mut Reader<'r>) -> Option<Self> {
        let (mut request, mut uid, mut kind, mut operation) = (Self::default(), None, None, None);
        reader.fields(|reader, key| match key {
            "uid" => once(&mut uid, reader.text()),
            "kind" => once(&mut kind, RawKind::read(reader).map(Object)),
            "subResource" => once(&mut request.sub_resource, reader.text()),
            "namespace" => once(&mut request.namespace, reader.text()),
            "name" => once(&mut request.name, reader.text()),
            "operation" => once(&mut operation, reader.text()),
            "dryRun" => once(&mut request.dry_run, reader.bool()),
            "object" if matches!(&kind, Some(Object(kind)) if RawKind::is_pod(kind)) => {
                let (text, pod) = reader.with_text(Pod::read)?;
                request.pod = Some(pod);
                once(&mut request.object, Some(text))
            }
            "object" => once(&mut request.object, reader.raw()),
            _ => reader.skip(),
        })?;
        Some(Self { uid: uid.unwrap_or_default(), kind, operation: operation.unwrap_or_default(), ..request })
    }
}

impl<'r> RawKind<'r> {
    fn is_pod(&self) -> bool {
        self.group.is_empty() && self.kind == "Pod"
    }

    fn read(reader: &mut Reader<'r>) -> Option<Self> {
        let (mut group, mut kind) = (None, None);
        reader.fields(|reader, key| match key {
            "group" => once(&mut group, reader.text()),
            "kind" => once(&mut kind, reader.text()),
            _ => reader.skip(),
        })?;
        Some(Self { group: group.unwrap_or_default(), kind: kind.unwrap_or_default() })
    }
}

/// The uid of a review of which nothing else need be right.
fn uid(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Review {
        request: Object<Request>,
    }
    #[derive(Deserialize)]
    struct Request {
        uid: String,
    }
    serde_json::from_slice::<Review>(body).ok().map(|review| review.request.0.uid).filter(|uid| !uid.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_pods_review_is_read_with_its_object_as_text() {
        let body = br#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u",
            "kind":{"group":"","version":"v1","kind":"Pod"},"namespace":"ci","operation":"CREATE","oldObject":null,
            "object":{"spec": {}},"dryRun":false}}"#;
        let request = parse(body).unwrap();
        assert_eq!((request.uid.as_ref(), request.kind.as_ref(), request.name.as_ref()), ("u", "Pod", ""));
        assert_eq!(request.object, Some(r#"{"spec": {}}"#));
        assert_eq!(request.pod.unwrap().value, Pod::parse(r#"{"spec": {}}"#).unwrap().value);
        // What the reader gives up on, another kind, and a kind that isn't known yet.
        let body = String::from_utf8(body.to_vec()).unwrap();
        let odd = body.replace(r#"{"spec": {}}"#, r#"{"spec": {}, "metadata": null}"#);
        let job = body.replace(r#""kind":"Pod""#, r#""kind":"Job""#);
        let late = body.replace(r#""kind":{"#, r#""late":{"#).replace(r#""dryRun":false"#, r#""kind":{"kind":"Pod"}"#);
        for (body, kind) in [(odd, "Pod"), (job, "Job"), (late, "Pod")] {
            let request = parse(body.as_bytes()).unwrap();
            assert_eq!((request.kind.as_ref(), request.pod.is_none()), (kind, true), "{body}");
            assert!(request.object.unwrap().starts_with(r#"{"spec": {}"#), "{body}");
        }
    }

    #[test]
    fn a_list_is_no_object() {
        for body in [
            r#"["AdmissionReview","admission.k8s.io/v1",{"uid":"u"}]"#,
            r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":["u"]}"#,
            r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","kind":["","Pod"]}}"#,
        ] {
            let (error, _) = parse(body.as_bytes()).unwrap_err();
            assert!(error.to_string().contains("expected an object"), "{error}");
        }
        for pod in [r#"[{"labels":{}},{}]"#, r#"{"metadata":["n"],"spec":{}}"#] {
            assert!(Pod::parse(pod).is_err(), "{pod}");
        }
        let strange = r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"\u0075","kind":null,"object":{"a":1}}}"#;
        let request = parse(strange.as_bytes()).unwrap();
        assert_eq!((request.uid.as_ref(), request.kind.as_ref(), request.object), ("u", "", Some(r#"{"a":1}"#)));
    }

    #[test]
    fn the_uid_is_found_in_a_review_that_is_wrong_otherwise() {
        let wrong = br#"{"kind":"AdmissionReview","apiVersion":"v0","request":{"uid":"u","dryRun":7}}"#;
        let (error, uid) = parse(wrong).unwrap_err();
        assert!(matches!(error, ReviewError::Json(_)));
        assert_eq!(uid.as_deref(), Some("u"));
        let (error, uid) = parse(br#"{"kind":"Pod","apiVersion":"v1","request":{"uid":"u"}}"#).unwrap_err();
        assert_eq!(error.to_string(), "expected admission.k8s.io/v1 AdmissionReview, got v1 Pod");
        assert_eq!(uid.as_deref(), Some("u"));
        let none = br#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{}}"#;
        assert!(matches!(parse(none), Err((ReviewError::NoUid, None))));
    }
}
