use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::post;
use podlayer::server::Limits;
use tokio::io::AsyncWriteExt;
use tokio::sync::Semaphore;

use crate::support::{Client, Served, measuring, patient, until, within};

const TOO_LARGE: &str =
    "podlayer: the body is over the limit of 7340032 bytes; no review of one object is that large\n";
const SHORT: Duration = Duration::from_millis(300);

/// A handler that waits for a permit each time, and how many have got into it.
fn waiting() -> (Router, Arc<Semaphore>, Arc<Semaphore>) {
    let (entered, leave) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (entered_too, leave_too) = (Arc::clone(&entered), Arc::clone(&leave));
    let handler = async move || {
        entered_too.add_permits(1);
        leave_too.acquire().await.unwrap().forget();
        "done"
    };
    (Router::new().route("/mutate", post(handler)), entered, leave)
}

fn head(more: &str) -> String {
    format!("POST /mutate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{more}\r\n\r\n")
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_while_its_sender_still_sends() {
    let served = Served::start(measuring(), patient()).await;
    let mut client = served.connect().await;
    client.send(head("Content-Length: 8388608").as_bytes()).await;
    // A caller whose sending fails may never look for an answer, so all of it is taken.
    within(client.stream.write_all(&vec![b' '; 8 << 20])).await.unwrap();
    let answer = client.answer().await;
    assert_eq!((answer.status, answer.body.as_str(), answer.closes()), (413, TOO_LARGE, true));
    assert_eq!(served.connect().await.post("/mutate", b"{}").await.status, 200);
    served.until_metric("podlayer_rejected_total{reason=\"too_large\"} 1").await;
}

#[tokio::test]
async fn a_body_of_100_megabytes_is_refused_before_its_first_byte() {
    let served = Served::start(measuring(), patient()).await;
    let mut client = served.connect().await;
    client.send(head("Content-Length: 100000000").as_bytes()).await;
    assert_eq!(client.answer().await.body, TOO_LARGE);
}

#[tokio::test]
async fn bodies_without_end_are_refused_and_fill_no_memory() {
    let served = Served::start(measuring(), patient()).await;
    let before = resident();
    let mut clients = Vec::new();
    for _ in 0..4 {
        let client = served.connect().await;
        clients.push(tokio::spawn(async move {
            let (mut reader, mut writer) = tokio::io::split(client.stream);
            let sender = tokio::spawn(async move {
                let chunk = [b"10000\r\n".as_slice(), &vec![b' '; 0x10000], b"\r\n"].concat();
                writer.write_all(head("Transfer-Encoding: chunked").as_bytes()).await.unwrap();
                let mut sent = 0_usize;
                while writer.write_all(&chunk).await.is_ok() {
                    sent += chunk.len();
                }
                sent
            });
            let mut answer = String::new();
            let _ = tokio::io::AsyncReadExt::read_to_string(&mut reader, &mut answer).await;
            sender.abort();
            answer
        }));
    }
    for client in clients {
        let answer = client.await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 413 ") && answer.ends_with(TOO_LARGE), "{answer}");
    }
    let after = resident();
    // Four bodies of 7 MiB, in buffers that double, and as much again for the clients in this process.
    assert!(after < before + (128 << 20), "{before} bytes before, {after} after");
    assert_eq!(served.connect().await.post("/mutate", b"{}").await.status, 200);
}

#[tokio::test]
async fn bodies_that_are_too_large_together_are_told_to_come_again() {
    let (router, entered, leave) = waiting();
    let served = Served::start(router, Limits { bytes: 100_000, ..patient() }).await;
    let mut first = served.connect().await;
    // One source may hold half.
    first.send_post("/mutate", &[b' '; 40_000]).await;
    until(|| entered.available_permits() == 1, "the first call").await;
    let answer = served.connect().await.post("/mutate", &[b' '; 40_000]).await;
    assert_eq!((answer.status, answer.header("retry-after")), (429, Some("1")));
    assert_eq!(answer.body, "podlayer: the requests being answered are too large together; try again in a second\n");
    leave.add_permits(2);
    assert_eq!(first.answer().await.status, 200);
    assert_eq!(first.post("/mutate", &[b' '; 40_000]).await.status, 200, "what the first held has come back");
}

#[tokio::test]
async fn a_body_that_comes_byte_by_byte_is_refused_in_time_and_takes_up_no_call() {
    let served = Served::start(measuring(), Limits { body: Duration::from_secs(2), calls: 1, ..patient() }).await;
    let mut slow = served.connect().await;
    slow.send(head("Content-Length: 1000").as_bytes()).await;
    slow.send(b"{").await;
    assert_eq!(served.connect().await.post("/mutate", b"{}").await.status, 200);
    let answer = slow.answer().await;
    assert_eq!((answer.status, answer.closes()), (408, true));
    assert_eq!(answer.body, "podlayer: the body did not come within 2s; send it at once\n");
    served.until_metric("podlayer_rejected_total{reason=\"body_timeout\"} 1").await;
}

#[tokio::test]
async fn a_head_that_comes_byte_by_byte_is_cut() {
    let served = Served::start(measuring(), Limits { head: SHORT, ..patient() }).await;
    let mut client = served.connect().await;
    let mut ended = false;
    for byte in head("Content-Length: 2").bytes().cycle() {
        client.send(&[byte]).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        if served.metrics.text().contains("podlayer_rejected_total{reason=\"head_timeout\"} 1\n") {
            ended = true;
            break;
        }
    }
    assert!(ended && client.is_ended().await);
}

#[tokio::test]
async fn a_head_that_stops_halfway_is_cut_on_a_kept_connection_too() {
    let served = Served::start(measuring(), Limits { head: SHORT, ..patient() }).await;
    let mut client = served.connect().await;
    assert_eq!(client.post("/mutate", b"{}").await.status, 200);
    client.send(b"POST /mut").await;
    assert!(client.is_ended().await);
    served.until_metric("podlayer_rejected_total{reason=\"head_timeout\"} 1").await;
}

#[tokio::test]
async fn a_connection_may_be_idle_for_longer_than_a_head_may_take() {
    let served = Served::start(measuring(), Limits { head: SHORT, ..patient() }).await;
    let mut client = served.connect().await;
    for _ in 0..3 {
        // Before the first request as well as between two.
        tokio::time::sleep(3 * SHORT).await;
        assert_eq!(client.post("/mutate", b"{}").await.status, 200);
    }
    assert!(served.metrics.text().contains("podlayer_rejected_total{reason=\"head_timeout\"} 0\n"));
}

#[tokio::test]
async fn a_connection_that_stays_idle_is_closed_at_its_limit() {
    let served = Served::start(measuring(), Limits { idle: SHORT, ..patient() }).await;
    let mut client = served.connect().await;
    assert!(client.is_ended().await);
    served.until_metric("podlayer_connections 0").await;
}

#[tokio::test]
async fn a_call_that_never_ends_is_cut() {
    let (router, _, _) = waiting();
    let served = Served::start(router, Limits { call: SHORT, ..patient() }).await;
    let mut client = served.connect().await;
    client.send_post("/mutate", b"{}").await;
    assert!(client.is_ended().await);
    served.until_metric("podlayer_rejected_total{reason=\"call_timeout\"} 1").await;
}

#[tokio::test]
async fn calls_over_the_cap_are_told_to_come_again_and_other_sources_still_get_in() {
    let (router, entered, leave) = waiting();
    let served = Served::start(router, Limits { calls: 2, ..patient() }).await;
    let mut first = served.connect().await;
    first.send_post("/mutate", b"{}").await;
    until(|| entered.available_permits() == 1, "the first call").await;

    let mut second = served.connect().await;
    let answer = second.post("/mutate", b"{}").await;
    assert_eq!((answer.status, answer.header("retry-after"), answer.closes()), (429, Some("1"), false));
    assert_eq!(answer.body, "podlayer: too many requests are being answered at once; try again in a second\n");
    served.until_metric("podlayer_rejected_total{reason=\"overload\"} 1").await;

    let mut other = served.connect_from(Ipv4Addr::new(127, 0, 0, 2)).await;
    other.send_post("/mutate", b"{}").await;
    until(|| entered.available_permits() == 2, "the call of the other source").await;

    leave.add_permits(3);
    assert_eq!(first.answer().await.status, 200);
    assert_eq!(other.answer().await.status, 200);
    assert_eq!(second.post("/mutate", b"{}").await.status, 200, "the refused connection is still good");
}

#[tokio::test]
async fn connections_over_the_cap_of_a_source_are_closed_and_others_still_get_in() {
    let served = Served::start(measuring(), Limits { connections: 4, ..patient() }).await;
    let mut ours: Vec<Client> = vec![served.connect().await, served.connect().await];
    assert!(served.connect_with(served.tcp().await, served.client_config()).await.is_err());
    served.until_metric("podlayer_rejected_total{reason=\"connections\"} 1").await;
    assert_eq!(served.connect_from(Ipv4Addr::new(127, 0, 0, 2)).await.post("/mutate", b"{}").await.status, 200);
    ours.remove(0).close().await;
    served.until_metric("podlayer_connections 1").await;
    assert_eq!(served.connect().await.post("/mutate", b"{}").await.status, 200);
}

/// The memory that this process holds, in bytes; 0 where the system doesn't say it this way.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")).map_or(0, |text| text.parse::<usize>().unwrap() << 10)
}
