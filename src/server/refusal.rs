use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

/// Why a request gets no answer of a handler's, and the one place that says so to its caller: a status, and a sentence for
/// the person with curl. API servers show neither.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The body broke off.
    BodyBroken,
    /// The body took longer than this.
    BodySlow(Duration),
    /// The body is over this many bytes.
    BodyTooLarge(usize),
    /// The content isn't JSON, by its header.
    ContentType(Option<String>),
    /// The path has no such method.
    Method { method: String, path: String, serves: &'static str },
    /// A handler panicked.
    Panicked,
    /// There is no such path.
    Path { path: String, serves: &'static str },
    /// The caller waits no longer than this, which is over.
    TooLate(Duration),
    /// Too many bytes of bodies at once.
    TooManyBytes,
    /// Too many calls at once.
    TooManyCalls,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, text) = match &self {
            Self::BodyBroken => (StatusCode::BAD_REQUEST, "the body broke off before its end".to_owned()),
            Self::BodySlow(limit) => {
                (StatusCode::REQUEST_TIMEOUT, format!("the body did not come within {limit:?}; send it at once"))
            }
            Self::BodyTooLarge(limit) => (
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("the body is over the limit of {limit} bytes; no review of one object is that large"),
            ),
            Self::ContentType(None) => (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "the request has no Content-Type; send JSON with \"Content-Type: application/json\"".to_owned(),
            ),
            Self::ContentType(Some(found)) => (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                format!("the Content-Type is {found:?}; send JSON with \"Content-Type: application/json\""),
            ),
            Self::Method { method, path, serves } => {
                (StatusCode::METHOD_NOT_ALLOWED, format!("{path} does not take {method}; served here: {serves}"))
            }
            Self::Panicked => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "a bug in podlayer: the handler panicked; its log says where".to_owned(),
            ),
            Self::Path { path, serves } => {
                (StatusCode::NOT_FOUND, format!("there is nothing at {path}; served here: {serves}"))
            }
            Self::TooLate(allowed) => (
                StatusCode::TOO_MANY_REQUESTS,
                format!("no answer could be given within the timeout of {allowed:?}; try again in a second"),
            ),
            Self::TooManyBytes => (
                StatusCode::TOO_MANY_REQUESTS,
                "the requests being answered are too large together; try again in a second".to_owned(),
            ),
            Self::TooManyCalls => (
                StatusCode::TOO_MANY_REQUESTS,
                "too many requests are being answered at once; try again in a second".to_owned(),
            ),
        };
        let mut response = (status, Body::from(format!("podlayer: {text}\n"))).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        if status == StatusCode::TOO_MANY_REQUESTS {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        // The others come before the body was read to its end, so that no next request can be found on the connection.
        if !matches!(self, Self::Panicked | Self::TooLate(_) | Self::TooManyCalls) {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

/// What to tell whoever speaks plain HTTP to the port for HTTPS, as bytes, for there is no HTTP there to say it in.
pub(super) const PLAIN_HTTP: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 60\r\nConnection: close\r\n\r\npodlayer: this port speaks HTTPS; use a URL with \"https://\"\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_plain_http_has_the_length_that_it_says() {
        let text = std::str::from_utf8(PLAIN_HTTP).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{}", body.len());
    }
}
