use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Extension;
use axum::routing::post;
use podlayer::server::Arrived;

use crate::support::{SERVES, Served, measuring, patient};

#[tokio::test]
async fn a_path_or_method_that_is_not_there_is_answered_with_what_is() {
    let served = Served::start(measuring(), patient()).await;
    let answer = served.connect().await.post("/mutat?timeout=7s", b"{}").await;
    assert_eq!(answer.status, 404);
    assert_eq!(answer.body, format!("podlayer: there is nothing at /mutat; served here: {SERVES}\n"));

    let mut client = served.connect().await;
    client.send(b"GET /mutate HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let answer = client.answer().await;
    assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")));
    assert_eq!(answer.body, format!("podlayer: /mutate does not take GET; served here: {SERVES}\n"));
    assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
    served.until_metric("podlayer_requests_total{path=\"/mutate\",outcome=\"refused\"} 1").await;
    served.until_metric("podlayer_requests_total{path=\"other\",outcome=\"refused\"} 1").await;
}

#[tokio::test]
async fn a_long_path_is_quoted_in_part() {
    let served = Served::start(measuring(), patient()).await;
    let answer = served.connect().await.post(&format!("/{}", "x".repeat(9000)), b"{}").await;
    assert_eq!(answer.status, 404);
    assert!(answer.body.len() < 300, "{}", answer.body);
}

#[tokio::test]
async fn content_that_is_not_json_by_its_header_is_refused_with_the_header_to_send() {
    let served = Served::start(measuring(), patient()).await;
    let post = async |header: &str| {
        let mut client = served.connect().await;
        let request = format!("POST /mutate HTTP/1.1\r\nHost: localhost\r\n{header}Content-Length: 2\r\n\r\n{{}}");
        client.send(request.as_bytes()).await;
        client.answer().await
    };
    let answer = post("").await;
    assert_eq!(answer.status, 415);
    assert_eq!(
        answer.body,
        "podlayer: the request has no Content-Type; send JSON with \"Content-Type: application/json\"\n"
    );
    let answer = post("Content-Type: application/x-www-form-urlencoded\r\n").await;
    assert_eq!(answer.status, 415);
    assert_eq!(
        answer.body,
        "podlayer: the Content-Type is \"application/x-www-form-urlencoded\"; \
         send JSON with \"Content-Type: application/json\"\n"
    );
    for taken in ["application/json", "Application/JSON; charset=utf-8"] {
        assert_eq!(post(&format!("Content-Type: {taken}\r\n")).await.status, 200, "{taken}");
    }
}

#[tokio::test]
async fn a_body_reaches_its_handler_whole_up_to_the_limit() {
    let served = Served::start(measuring(), patient()).await;
    let mut client = served.connect().await;
    // Two of these are over axum's own limit for a body, which is 2 MB.
    for length in [0, 1, 20_000, 3 << 20, 7 << 20] {
        let answer = client.post("/validate", &vec![b' '; length]).await;
        assert_eq!((answer.status, answer.body), (200, length.to_string()));
    }
}

#[tokio::test]
async fn a_body_in_chunks_reaches_its_handler_joined() {
    let served = Served::start(Router::new().route("/mutate", post(async |body: String| body)), patient()).await;
    let mut client = served.connect().await;
    client
        .send(b"POST /mutate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        .await;
    for chunk in ["3\r\n{\"a\r\n", "2\r\n\":\r\n", "2\r\n1}\r\n", "0\r\nTrailer: x\r\n\r\n"] {
        client.send(chunk.as_bytes()).await;
    }
    assert_eq!(client.answer().await.body, "{\"a\":1}");
    assert_eq!(client.post("/mutate", b"next").await.body, "next", "the connection goes on");
}

#[tokio::test]
async fn a_handler_knows_when_its_request_had_arrived() {
    let age = async |Extension(Arrived(at)): Extension<Arrived>, _: String| at.elapsed().as_millis().to_string();
    let served = Served::start(Router::new().route("/mutate", post(age)), patient()).await;
    let mut client = served.connect().await;
    client
        .send(
            b"POST /mutate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n",
        )
        .await;
    let start = Instant::now();
    tokio::time::sleep(Duration::from_millis(300)).await;
    client.send(b"{}").await;
    let age: u128 = client.answer().await.body.parse().unwrap();
    // The time that the body took counts. The head may have been read late on a busy machine, never early.
    assert!(age <= start.elapsed().as_millis() + 1000, "{age}");
    assert!(age > 0, "{age}");
}

#[tokio::test]
async fn a_panic_of_a_handler_is_answered_and_counted_and_ends_nothing() {
    let trap = async |body: String| {
        assert!(body != "trap", "a value that must not be told");
        "fine"
    };
    let served = Served::start(Router::new().route("/mutate", post(trap)), patient()).await;
    let mut client = served.connect().await;
    let answer = client.post("/mutate", b"trap").await;
    assert_eq!(answer.status, 500);
    assert_eq!(answer.body, "podlayer: a bug in podlayer: the handler panicked; its log says where\n");
    assert_eq!(client.post("/mutate", b"{}").await.body, "fine", "on the same connection");
    assert_eq!(served.connect().await.post("/mutate", b"{}").await.body, "fine");
    let text = served.metrics.text();
    assert!(text.contains("podlayer_panics_total 1\n"), "{text}");
    assert!(text.contains("podlayer_requests_total{path=\"/mutate\",outcome=\"failed\"} 1\n"), "{text}");
}

#[tokio::test]
async fn a_caller_that_leaves_before_its_answer_is_counted_as_gone() {
    let never = async || std::future::pending::<()>().await;
    let served = Served::start(Router::new().route("/mutate", post(never)), patient()).await;
    let mut client = served.connect().await;
    client.send_post("/mutate", b"{}").await;
    client.close().await;
    served.until_metric("podlayer_requests_total{path=\"/mutate\",outcome=\"abandoned\"} 1").await;
    served.until_metric("podlayer_connections 0").await;
}

#[tokio::test]
async fn requests_sent_in_one_packet_are_answered_in_their_order() {
    let served = Served::start(Router::new().route("/mutate", post(async |body: String| body)), patient()).await;
    let mut client = served.connect().await;
    let one = |body: &str| {
        format!(
            "POST /mutate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    client.send((one("first") + &one("second") + &one("third")).as_bytes()).await;
    for want in ["first", "second", "third"] {
        assert_eq!(client.answer().await.body, want);
    }
}
