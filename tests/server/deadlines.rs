//! The caller's own time, `?timeout=`, is kept.

use axum::Router;
use axum::body::Bytes;
use axum::routing::post;

use crate::support::{HANG, Served, measuring, patient};

#[tokio::test]
async fn a_call_that_takes_longer_than_its_caller_waits_is_given_up_and_the_connection_goes_on() {
    let slow = async |body: Bytes| {
        if body.as_ref() == b"slow" {
            tokio::time::sleep(HANG).await;
        }
        "done"
    };
    let served = Served::start(Router::new().route("/mutate", post(slow)), patient()).await;
    let mut client = served.connect().await;
    let answer = client.post("/mutate?timeout=300ms", b"slow").await;
    assert_eq!((answer.status, answer.header("retry-after"), answer.closes()), (429, Some("1"), false));
    assert_eq!(answer.body, "podlayer: no answer could be given within the timeout of 300ms; try again in a second\n");
    served.until_metric("podlayer_rejected_total{reason=\"deadline\"} 1").await;
    served.until_metric("podlayer_requests_in_flight 0").await;
    assert_eq!(client.post("/mutate?timeout=300ms", b"fast").await.body, "done");
    // Nonsense is no timeout.
    assert_eq!(client.post("/mutate?timeout=0s&timeout=x", b"fast").await.body, "done");
}

#[tokio::test]
async fn a_body_that_comes_too_slowly_for_its_caller_is_waited_for_no_longer() {
    let served = Served::start(measuring(), patient()).await;
    let mut slow = served.connect().await;
    slow.send(
        b"POST /mutate?timeout=400ms HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
          Content-Length: 100\r\n\r\nhalf",
    )
    .await;
    let mut other = served.connect().await;
    assert_eq!(other.post("/mutate?timeout=10s", b"{}").await.status, 200);
    let answer = slow.answer().await;
    assert_eq!((answer.status, answer.closes()), (408, true));
    assert!(answer.body.contains("did not come within 400ms"), "{}", answer.body);
    served.until_metric("podlayer_rejected_total{reason=\"body_timeout\"} 1").await;
}
