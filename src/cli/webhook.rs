use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use tokio::{
    sync::watch,
    task::{JoinError, JoinSet},
};

use super::{
    callers::CallerArgs,
    layer_args::LayerArgs,
    layers_page,
    policy::PolicyArgs,
    report::{CliError, Outcome},
    start::{self, LogArgs},
    webhook_tls::TlsArgs,
};
use crate::{
    admission::handler::Handler,
    cluster::{self, Watched},
    names,
    server::{self, Drain, Limits, Readiness},
    telemetry::Metrics,
};

/// Flags of `webhook`.
#[derive(Debug, clap::Args)]
#[command(after_help = "In a cluster the layers are the ConfigMaps labelled podlayer.dev/layer in podlayer's own \
                        namespace. Without one:\n  podlayer certs --out certs-dev\n  podlayer webhook --layers layers/ \
                        --addr 127.0.0.1:8443 --tls-cert certs-dev/tls.crt --tls-key certs-dev/tls.key")]
pub(super) struct Args {
    /// Layers in files or folders, in the place of a cluster's; read again when they change.
    #[arg(long, value_name = "PATH")]
    layers: Vec<PathBuf>,
    /// The cluster to watch; else KUBECONFIG, else the one that podlayer runs in.
    #[arg(long, value_name = "FILE", conflicts_with = "layers")]
    kubeconfig: Option<PathBuf>,
    /// Address of the webhook (HTTPS).
    #[arg(long, value_name = "ADDR", default_value_t = SocketAddr::from(([0, 0, 0, 0], names::PORT_WEBHOOK)))]
    addr: SocketAddr,
    /// Address of probes and metrics (plain HTTP).
    #[arg(long, value_name = "ADDR", default_value_t = SocketAddr::from(([0, 0, 0, 0], names::PORT_ADMIN)))]
    admin_addr: SocketAddr,
    #[command(flatten)]
    log: LogArgs,
    #[command(flatten)]
    tls: TlsArgs,
    #[command(flatten)]
    callers: CallerArgs,
    #[command(flatten)]
    layer_args: LayerArgs,
    #[command(flatten)]
    policy: PolicyArgs,
}

/// Runs `webhook`.
pub(super) fn run(args: Args) -> Result<Outcome, CliError> {
    start::serve(&args.log.clone(), serve(args))
}

async fn serve(args: Args) -> Result<Outcome, CliError> {
    let Args { layers, kubeconfig, addr, tls, admin_addr, callers, layer_args, policy, .. } = args;
    let policy = Arc::new(policy.policy());
    let metrics = Metrics::new();
    let drain = Drain::new();
    let readiness = Readiness::new(drain.clone());
    let layers_read = readiness.condition("layers", "the layers were not read yet");
    let certified = readiness.condition("certificate", "the webhook configurations don't trust it yet");

    let client = if layers.is_empty() {
        let client = cluster::client(kubeconfig.as_deref(), None).await;
        Some(client.map_err(|error| CliError::because("failed to reach the cluster", error))?)
    } else {
        None
    };
    let certificates = tls.certificates(client.as_ref(), &policy.own_namespace, metrics.clone())?;
    // Every task that must not end; the first that does ends the process.
    let mut tasks: JoinSet<Result<&'static str, CliError>> = JoinSet::new();
    let tls = callers.tls(certificates.serving(), &mut tasks)?;
    let bind = |error| CliError::because("failed to start", error);
    let listener = server::bind(addr).await.map_err(bind)?;
    let admin = server::bind(admin_addr).await.map_err(bind)?;
    let shown =
        |listener: &tokio::net::TcpListener| listener.local_addr().map(|addr| addr.to_string()).unwrap_or_default();
    tracing::info!(webhook = shown(&listener), admin = shown(&admin), "listening");

    let (snapshot, snapshots) = watch::channel(None);
    let (standing, standings) = watch::channel(Vec::new());
    let watched = Watched { snapshot, standings: standing };
    if let Some(client) = client {
        let (layers, metrics) = (layer_args.watched(&policy.own_namespace), metrics.clone());
        tasks.spawn(async move {
            cluster::watch_layers(client, layers, watched, metrics).await;
            Ok("the watch of the layers")
        });
    } else {
        tasks.spawn(layer_args.of_files(layers, &policy.own_namespace).start(watched, metrics.clone())?);
    }
    let mut seen = snapshots.clone();
    tokio::spawn(async move {
        // An error means that the watch is gone, which ends the process anyway.
        if seen.wait_for(Option::is_some).await.is_ok() {
            layers_read.set(true);
        }
    });
    tasks.spawn(async move { certificates.keep(certified).await });
    let more = layers_page::router(standings, snapshots.clone(), metrics.clone());
    let admin = server::serve_admin(admin, readiness, more, Limits::admin(), metrics.clone());
    tasks.spawn(
        async move { admin.await.map(|()| "the admin port").map_err(|error| CliError::because("failed", error)) },
    );
    let signals = drain.clone();
    tasks.spawn(async move {
        let stopped = signals.on_signals().await;
        stopped.map(|()| "").map_err(|error| CliError::because("failed to listen to signals", error))
    });

    let handler = Handler { snapshots, policy, metrics: metrics.clone() };
    let router = server::with_fallbacks(handler.router(), "POST /mutate, POST /validate");
    let webhook = server::serve(listener, tls, router, Limits::default(), drain, metrics);
    tokio::select! {
        ended = webhook => ended.map(|()| Outcome::Clean).map_err(|error| CliError::because("failed to serve", error)),
        Some(ended) = tasks.join_next() => ended_early(ended),
    }
}

fn ended_early(ended: Result<Result<&'static str, CliError>, JoinError>) -> Result<Outcome, CliError> {
    match ended {
        // Told to stop twice.
        Ok(Ok("")) => Ok(Outcome::Clean),
        Ok(Ok(what)) => Err(CliError::new(format!("{what} ended by itself, please report it"))),
        Ok(Err(error)) => Err(error),
        Err(error) => Err(CliError::because("a part of podlayer failed, please report it", error)),
    }
}
