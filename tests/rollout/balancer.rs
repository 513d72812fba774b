//! What a Service and kube-proxy do: one address for many endpoints, from which those that aren't ready go.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    runtime::Runtime,
};

use crate::controlplane::{http_get, wait_until};

struct Endpoint {
    address: SocketAddr,
    admin: SocketAddr,
    /// Connections are sent there.
    in_use: bool,
    /// Since when it hasn't been ready.
    unready: Option<Instant>,
}

/// Connections that are open stay with their endpoint; new ones go to those in use, by turns.
pub(crate) struct Balancer {
    pub(crate) address: SocketAddr,
    endpoints: Arc<Mutex<Vec<Endpoint>>>,
    /// Ends all of it when dropped.
    _runtime: Runtime,
}

impl Balancer {
    /// `propagation`: how long after it stopped being ready an endpoint still gets connections.
    pub(crate) fn start(propagation: Duration) -> Self {
        let endpoints: Arc<Mutex<Vec<Endpoint>>> = Arc::default();
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = endpoints.clone();
        runtime.spawn(async move {
            let mut turn = 0;
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                let there: Vec<SocketAddr> =
                    shared.lock().unwrap().iter().filter(|one| one.in_use).map(|one| one.address).collect();
                turn += 1;
                let Some(to) = there.get(turn % there.len().max(1)).copied() else { continue };
                tokio::spawn(async move {
                    // A refused connection is one that the client sees closed, as behind kube-proxy.
                    if let Ok(mut server) = TcpStream::connect(to).await {
                        let _ = copy_bidirectional(&mut client, &mut server).await;
                    }
                });
            }
        });
        let shared = endpoints.clone();
        let weak = Arc::downgrade(&shared);
        drop(shared);
        thread::spawn(move || {
            while let Some(endpoints) = weak.upgrade() {
                let asked: Vec<SocketAddr> = endpoints.lock().unwrap().iter().map(|one| one.admin).collect();
                let ready: Vec<bool> = asked.iter().map(|admin| is_ready(*admin)).collect();
                for one in endpoints.lock().unwrap().iter_mut() {
                    let Some(at) = asked.iter().position(|admin| *admin == one.admin) else { continue };
                    one.unready = if ready[at] { None } else { Some(one.unready.unwrap_or_else(Instant::now)) };
                    one.in_use = match one.unready {
                        None => true,
                        Some(since) => one.in_use && since.elapsed() < propagation,
                    };
                }
                drop(endpoints);
                thread::sleep(Duration::from_millis(100));
            }
        });
        Self { address, endpoints, _runtime: runtime }
    }

    pub(crate) fn add(&self, address: SocketAddr, admin: SocketAddr) {
        self.endpoints.lock().unwrap().push(Endpoint { address, admin, in_use: false, unready: Some(Instant::now()) });
    }

    pub(crate) fn wait_for(&self, count: usize) {
        wait_until(Duration::from_secs(60), "the replicas to be ready", || {
            self.endpoints.lock().unwrap().iter().filter(|one| one.in_use).count() == count
        });
    }

    pub(crate) fn wait_until_ready(&self, address: SocketAddr) {
        wait_until(Duration::from_secs(60), "the new replica to be ready", || {
            self.endpoints.lock().unwrap().iter().any(|one| one.in_use && one.address == address)
        });
    }
}

fn is_ready(admin: SocketAddr) -> bool {
    http_get(admin.port(), "/readyz").starts_with("HTTP/1.1 200")
}
