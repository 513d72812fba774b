use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::post;
use podlayer::server::Limits;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::support::{Served, measuring, patient, until};

#[tokio::test]
async fn a_kept_connection_gets_its_next_answer_with_connection_close_and_then_the_server_ends() {
    let served = Served::start(measuring(), patient()).await;
    let mut kept = served.connect().await;
    assert!(!kept.post("/mutate", b"{}").await.closes());
    served.drain.start();

    let mut new = served.connect().await;
    let answer = new.post("/mutate", b"{}").await;
    assert_eq!((answer.status, answer.closes()), (200, true), "a new connection is still served");
    assert!(new.is_ended().await);

    let answer = kept.post("/mutate", b"{}").await;
    assert_eq!((answer.status, answer.closes()), (200, true));
    assert!(kept.is_ended().await);
    drop((new, kept));
    served.ended().await;
}

#[tokio::test]
async fn a_call_in_its_handler_is_answered() {
    let (entered, leave) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (entered_too, leave_too) = (Arc::clone(&entered), Arc::clone(&leave));
    let slow = async move || {
        entered_too.add_permits(1);
        leave_too.acquire().await.unwrap().forget();
        "done"
    };
    let served = Served::start(Router::new().route("/mutate", post(slow)), patient()).await;
    let mut client = served.connect().await;
    client.send_post("/mutate", b"{}").await;
    until(|| entered.available_permits() == 1, "the call").await;
    served.drain.start();
    // Whether a server that didn't wait would have ended by now.
    tokio::time::sleep(Duration::from_millis(200)).await;
    leave.add_permits(1);
    let answer = client.answer().await;
    assert_eq!((answer.body.as_str(), answer.closes()), ("done", true));
    drop(client);
    served.ended().await;
}

#[tokio::test]
async fn an_idle_connection_is_not_closed_from_here_not_even_at_its_idle_limit() {
    let served = Served::start(measuring(), Limits { idle: Duration::from_secs(1), ..patient() }).await;
    let mut client = served.connect().await;
    assert_eq!(client.post("/mutate", b"{}").await.status, 200);
    served.drain.start();
    tokio::time::sleep(Duration::from_millis(2500)).await;
    let answer = client.post("/mutate", b"{}").await;
    assert_eq!((answer.status, answer.closes()), (200, true));
    drop(client);
    served.ended().await;
}

#[tokio::test]
async fn a_caller_that_closes_its_idle_connection_is_waited_for_no_longer() {
    let served = Served::start(measuring(), patient()).await;
    let client = served.connect().await;
    served.drain.start();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!served.task.is_finished());
    client.close().await;
    served.ended().await;
}

#[tokio::test]
async fn an_idle_connection_that_nobody_closes_holds_it_up_to_the_limit_only() {
    let served = Served::start(measuring(), Limits { drain: Duration::from_millis(500), ..patient() }).await;
    let mut client = served.connect().await;
    served.drain.start();
    assert!(client.is_ended().await);
    served.ended().await;
}

#[tokio::test]
async fn callers_that_still_come_are_served_until_it_has_settled_and_then_find_the_port_closed() {
    let served = Served::start(measuring(), Limits { settle: Duration::from_secs(4), ..patient() }).await;
    served.drain.start();
    for _ in 0..3 {
        // Nobody is connected in between.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let answer = served.connect().await.post("/mutate", b"{}").await;
        assert_eq!((answer.status, answer.closes()), (200, true));
    }
    let address = served.address;
    served.ended().await;
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_is_lost_by_callers_that_never_repeat_one() {
    for round in 0..20 {
        let served = Arc::new(Served::start(measuring(), patient()).await);
        let answered = Arc::new(AtomicUsize::new(0));
        let callers: Vec<_> = (0..16)
            .map(|_| {
                let (served, answered) = (Arc::clone(&served), Arc::clone(&answered));
                tokio::spawn(async move {
                    let mut client = served.connect().await;
                    loop {
                        client.send_post("/mutate", b"{}").await;
                        let Some(answer) = client.try_answer().await else { return false };
                        answered.fetch_add(1, Ordering::Relaxed);
                        if answer.closes() {
                            return true;
                        }
                    }
                })
            })
            .collect();
        // So that the drain begins in the midst of calls.
        until(|| answered.load(Ordering::Relaxed) > 100 + 7 * round, "calls under way").await;
        served.drain.start();
        for caller in callers {
            assert!(caller.await.unwrap(), "a call was lost in round {round}");
        }
        Arc::into_inner(served).unwrap().ended().await;
    }
}
