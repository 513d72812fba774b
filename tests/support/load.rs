//! Pods made at a steady rate, as dry runs, whether or not the earlier ones are done.

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::PostParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::json;
use tokio::{runtime::Runtime, task::JoinSet, time::interval};

use crate::controlplane::ControlPlane;

/// At most so many at once: a machine that can't keep the rate makes fewer pods, and never more than it can hold.
const IN_FLIGHT: usize = 64;

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) made: usize,
    pub(crate) unstamped: usize,
    /// What the API server said of the first few that failed.
    pub(crate) failed: Vec<String>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} pods made, {} without stamp, failed: {:?}", self.made, self.unstamped, self.failed)
    }
}

/// A load that runs.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Outcome>,
}

impl Load {
    /// Starts one of so many pods a second.
    pub(crate) fn start(plane: &ControlPlane, namespace: &str, rate: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (kubeconfig, namespace, stopped) = (plane.kubeconfig().to_owned(), namespace.to_owned(), stop.clone());
        let thread = std::thread::spawn(move || {
            Runtime::new().unwrap().block_on(async {
                let pods: Api<Pod> = Api::namespaced(client(&kubeconfig).await, &namespace);
                let outcome = Arc::new(Mutex::new(Outcome::default()));
                let mut ticks = interval(Duration::from_micros(1_000_000 / rate));
                let mut running = JoinSet::new();
                while !stopped.load(Ordering::Relaxed) {
                    ticks.tick().await;
                    while running.try_join_next().is_some() {}
                    if running.len() < IN_FLIGHT {
                        let (pods, outcome) = (pods.clone(), outcome.clone());
                        running.spawn(async move { note(&outcome, make(&pods).await) });
                    }
                }
                running.join_all().await;
                std::mem::take(&mut *outcome.lock().unwrap())
            })
        });
        Self { stop, thread }
    }

    pub(crate) fn stop(self) -> Outcome {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// Whether a pod made now has its stamp.
pub(crate) fn is_stamped(plane: &ControlPlane, namespace: &str) -> bool {
    Runtime::new().unwrap().block_on(async {
        let pods: Api<Pod> = Api::namespaced(client(plane.kubeconfig()).await, namespace);
        make(&pods).await.is_ok_and(|stamped| stamped)
    })
}

fn note(outcome: &Mutex<Outcome>, made: kube::Result<bool>) {
    let mut outcome = outcome.lock().unwrap();
    match made {
        Ok(stamped) => {
            outcome.made += 1;
            outcome.unstamped += usize::from(!stamped);
        }
        Err(error) if outcome.failed.len() < 5 => outcome.failed.push(error.to_string()),
        Err(_) => {}
    }
}

async fn make(pods: &Api<Pod>) -> kube::Result<bool> {
    let pod = json!({"metadata": {"generateName": "p-", "labels": {"podlayer.dev/enabled": "true"}},
        "spec": {"containers": [{"name": "a", "image": "b:1"}]}});
    let pod: Pod = serde_json::from_value(pod).unwrap();
    let made = pods.create(&PostParams { dry_run: true, field_manager: None }, &pod).await?;
    Ok(made.metadata.annotations.unwrap_or_default().contains_key("podlayer.dev/applied"))
}

async fn client(kubeconfig: &str) -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}
