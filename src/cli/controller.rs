use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use jiff::SignedDuration;
use kube::runtime::events::{Recorder, Reporter};
use tokio::{sync::watch, task::JoinSet};

use super::{
    policy::PolicyArgs,
    report::{CliError, Outcome},
    start::{self, LogArgs},
};
use crate::{
    cluster::{self, Watched},
    names,
    pool::{self, Leadership, World},
    server::{self, Drain, Limits, Readiness},
    telemetry::Metrics,
};

/// Flags of `controller`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Of several controllers one is at work; the others answer GET /v1/pools/NAMESPACE/NAME and wait \
                        for its Lease. The webhook doesn't need it."
)]
pub(super) struct Args {
    /// The cluster; else KUBECONFIG, else the one that podlayer runs in.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Namespaces whose pools are looked after; else podlayer's own.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', env = "PODLAYER_POOL_NAMESPACES")]
    pool_namespaces: Vec<String>,
    /// Namespaces whose own layers apply to their pods, as for the webhook.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', env = "PODLAYER_LAYER_NAMESPACES")]
    layer_namespaces: Vec<String>,
    /// Address of demand, probes and metrics (plain HTTP).
    #[arg(long, value_name = "ADDR", default_value_t = SocketAddr::from(([0, 0, 0, 0], names::PORT_ADMIN)))]
    admin_addr: SocketAddr,
    /// The PriorityClass of placeholders; job pods must have a higher one.
    #[arg(long, value_name = "NAME", default_value = names::HEADROOM_PRIORITY_CLASS)]
    headroom_priority_class: String,
    /// The image of placeholders, which waits and needs nothing; for clusters that pull from a mirror.
    #[arg(long, value_name = "IMAGE", default_value = names::PLACEHOLDER_IMAGE)]
    placeholder_image: String,
    /// How long a new leader deletes nothing.
    #[arg(long, value_name = "SECONDS", default_value_t = 15)]
    settle_seconds: u32,
    /// What this process calls itself in the Lease; else HOSTNAME.
    #[arg(long, value_name = "NAME", env = "HOSTNAME", default_value = "podlayer-controller")]
    identity: String,
    #[command(flatten)]
    log: LogArgs,
    #[command(flatten)]
    policy: PolicyArgs,
}

/// Runs `controller`.
pub(super) fn run(args: Args) -> Result<Outcome, CliError> {
    start::serve(&args.log.clone(), serve(args))
}

async fn serve(args: Args) -> Result<Outcome, CliError> {
    let Args {
        kubeconfig,
        pool_namespaces,
        layer_namespaces,
        admin_addr,
        headroom_priority_class,
        placeholder_image,
        settle_seconds,
        identity,
        policy,
        log: _,
    } = args;
    let policy = Arc::new(policy.policy());
    let namespaces = if pool_namespaces.is_empty() { vec![policy.own_namespace.clone()] } else { pool_namespaces };
    let (metrics, pool_metrics) = Metrics::with_pools();
    let drain = Drain::new();
    let readiness = Readiness::new(drain.clone());
    let all_listed = readiness.condition("pools", "not everything was listed yet");
    let client = cluster::client(kubeconfig.as_deref(), None).await;
    let client = client.map_err(|error| CliError::because("failed to reach the cluster", error))?;
    let admin = server::bind(admin_addr).await.map_err(|error| CliError::because("failed to start", error))?;

    let (snapshot, snapshots) = watch::channel(None);
    let watched = Watched { snapshot, standings: watch::channel(Vec::new()).0 };
    let (lead, leading) = watch::channel(None);
    // Two controllers on one host must not take each other for themselves.
    let identity = format!("{identity}-{}", std::process::id());
    let reporter = Reporter { controller: "podlayer".into(), instance: Some(identity.clone()) };
    let world = Arc::new(World::new(&namespaces));
    let shared = Arc::new(pool::Shared {
        client: client.clone(),
        world: world.clone(),
        snapshots,
        policy: policy.clone(),
        leading: leading.clone(),
        settle: SignedDuration::from_secs(settle_seconds.into()),
        placeholders: pool::Placeholders { priority_class: headroom_priority_class, image: placeholder_image },
        metrics: pool_metrics.clone(),
        recorder: Recorder::new(client.clone(), reporter),
    });

    // Every task that must not end; the first that does ends the process.
    let mut tasks: JoinSet<CliError> = JoinSet::new();
    let early = |what: &str| CliError::new(format!("{what} ended by itself, please report it"));
    let (layer_client, layer_metrics) = (client.clone(), metrics.clone());
    let layers = cluster::Layers {
        own_namespace: policy.own_namespace.clone(),
        namespaces: layer_namespaces,
        // The webhook tells of those.
        expected: Vec::new(),
        last_good: names::LAST_GOOD.to_owned(),
        reads_only: true,
    };
    tasks.spawn(async move {
        cluster::watch_layers(layer_client, layers, watched, layer_metrics).await;
        early("the watch of the layers")
    });
    let seen = world.clone();
    pool_metrics.ages(move || seen.ages());
    let running = shared.clone();
    tasks.spawn(async move {
        pool::run(running, namespaces).await;
        early("the watch of the pools")
    });
    let leadership = Leadership::new(client, &policy.own_namespace, identity, world.clone());
    let candidate = leadership.clone();
    let ready = all_listed.clone();
    tasks.spawn(async move {
        // Who hasn't listed everything can't lead.
        while !world.is_synced() {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        ready.set(true);
        pool_metrics.synced(true);
        let telling = pool_metrics.clone();
        let mut following = lead.subscribe();
        tokio::spawn(async move {
            while following.changed().await.is_ok() {
                telling.leads(following.borrow_and_update().is_some());
            }
        });
        let lost = candidate.lead(lead).await;
        CliError::because("failed to stay the leader, so nothing more may be changed", lost)
    });
    let admin = server::serve_admin(admin, readiness, pool::demand::router(shared), Limits::admin(), metrics);
    tasks.spawn(async move {
        match admin.await {
            Ok(()) => CliError::new("the admin port ended by itself, please report it"),
            Err(error) => CliError::because("failed", error),
        }
    });
    let stop = drain.clone();
    tokio::spawn(async move { drain.on_signals().await });
    tokio::select! {
        Some(ended) = tasks.join_next() => {
            Err(ended.unwrap_or_else(|error| CliError::because("a part of podlayer failed, please report it", error)))
        }
        () = stop.wait() => {
            // First nothing more is written, then another may lead.
            tasks.shutdown().await;
            leadership.release().await;
            Ok(Outcome::Clean)
        }
    }
}
