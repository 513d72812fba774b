use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use axum::{Json, Router, routing::get};
use tokio::{
    sync::watch,
    task::{JoinError, JoinSet},
};

use super::{
    files::{self, LayerFiles},
    policy::PolicyArgs,
    report::{CliError, Outcome, chain},
};
use crate::{
    admission::{Policy, handler::Handler},
    certs::files::{Files, POLL_INTERVAL},
    cluster::{self, Watched},
    layers::{Snapshot, Standing, State},
    names,
    server::{self, Drain, Limits, Readiness},
    telemetry::{
        Metrics,
        log::{self, Format},
    },
};

/// How often files given with `--layers` are looked at: half of the second that a change may take.
const LAYER_POLL: Duration = Duration::from_millis(500);

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
    /// Namespaces whose own layers apply to their pods.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', env = "PODLAYER_LAYER_NAMESPACES")]
    layer_namespaces: Vec<String>,
    /// Address of the webhook (HTTPS).
    #[arg(long, value_name = "ADDR", default_value_t = SocketAddr::from(([0, 0, 0, 0], names::PORT_WEBHOOK)))]
    addr: SocketAddr,
    /// Certificate chain of the webhook, PEM; read again when it changes.
    #[arg(long, value_name = "FILE")]
    tls_cert: PathBuf,
    /// Its key, PEM.
    #[arg(long, value_name = "FILE")]
    tls_key: PathBuf,
    /// Address of probes and metrics (plain HTTP).
    #[arg(long, value_name = "ADDR", default_value_t = SocketAddr::from(([0, 0, 0, 0], names::PORT_ADMIN)))]
    admin_addr: SocketAddr,
    /// How the log is written: text or json.
    #[arg(long, value_name = "FORMAT", default_value = "text", env = "PODLAYER_LOG_FORMAT")]
    log_format: Format,
    /// What is logged, such as debug or "info,podlayer::server=debug"; else RUST_LOG, else info.
    #[arg(long, value_name = "FILTER")]
    log_filter: Option<String>,
    #[command(flatten)]
    policy: PolicyArgs,
}

/// Runs `webhook`.
pub(super) fn run(args: Args) -> Result<Outcome, CliError> {
    log::init(args.log_format, args.log_filter.as_deref())
        .map_err(|error| CliError::because("failed to start the log", error))?;
    // kube asks for the process's default; only an embedding program could have set another, and none embeds this.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(|error| CliError::because("failed to start the runtime", error))?.block_on(serve(args))
}

async fn serve(args: Args) -> Result<Outcome, CliError> {
    let Args { layers, kubeconfig, layer_namespaces, addr, tls_cert, tls_key, admin_addr, policy, .. } = args;
    let policy = Arc::new(policy.policy());
    let metrics = Metrics::new();
    let drain = Drain::new();
    let readiness = Readiness::new(drain.clone());
    let layers_read = readiness.condition("layers", "the layers were not read yet");

    let certificates = Files { certificate: tls_cert, key: tls_key }.load(metrics.clone());
    let certificates = certificates.map_err(|error| CliError::because("failed to read the certificate", error))?;
    let tls = server::server_config(certificates.serving())
        .map_err(|error| CliError::because("failed to set up TLS", error))?;
    let bind = |error| CliError::because("failed to start", error);
    let listener = server::bind(addr).await.map_err(bind)?;
    let admin = server::bind(admin_addr).await.map_err(bind)?;
    let shown =
        |listener: &tokio::net::TcpListener| listener.local_addr().map(|addr| addr.to_string()).unwrap_or_default();
    tracing::info!(webhook = shown(&listener), admin = shown(&admin), "listening");

    let (snapshot, snapshots) = watch::channel(None);
    let (standing, standings) = watch::channel(Vec::new());
    let watched = Watched { snapshot, standings: standing };
    // Every task that must not end; the first that does ends the process.
    let mut tasks: JoinSet<Result<&'static str, CliError>> = JoinSet::new();
    if layers.is_empty() {
        let client = cluster::client(kubeconfig.as_deref(), None).await;
        let client = client.map_err(|error| CliError::because("failed to reach the cluster", error))?;
        let (own, metrics) = (policy.own_namespace.clone(), metrics.clone());
        tasks.spawn(async move {
            cluster::watch_layers(client, own, layer_namespaces, watched, metrics).await;
            Ok("the watch of the layers")
        });
    } else {
        let read = LayerFiles::read(&layers, &policy.own_namespace)?;
        let texts = read.texts.clone();
        put(&watched, read.snapshot()?);
        tasks.spawn(follow_files(layers, texts, watched, policy.clone()));
    }
    let mut seen = snapshots.clone();
    tokio::spawn(async move {
        // An error means that the watch is gone, which ends the process anyway.
        if seen.wait_for(Option::is_some).await.is_ok() {
            layers_read.set(true);
        }
    });
    tasks.spawn(async move { certificates.keep_looking(POLL_INTERVAL).await });
    let more = Router::new().route(names::PATH_LAYERS, get(move || async move { Json(standings.borrow().clone()) }));
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

fn put(watched: &Watched, snapshot: Snapshot) {
    let standing = |layer: &Arc<crate::layers::Layer>| Standing {
        source: layer.title.clone(),
        layer: layer.id.to_string(),
        state: State::Good,
        problem: None,
    };
    watched.standings.send_replace(snapshot.layers().map(standing).collect());
    watched.snapshot.send_replace(Some(Arc::new(snapshot)));
}

/// Reads the files again whenever their texts change; what can't be read leaves the last good set in force.
async fn follow_files(
    paths: Vec<PathBuf>,
    mut texts: Vec<(PathBuf, String)>,
    watched: Watched,
    policy: Arc<Policy>,
) -> Result<&'static str, CliError> {
    let mut complaint = String::new();
    loop {
        tokio::time::sleep(LAYER_POLL).await;
        let read = files::texts(&paths).and_then(|now| {
            if now == texts {
                return Ok(None);
            }
            let snapshot = LayerFiles::read(&paths, &policy.own_namespace)?.snapshot()?;
            Ok(Some((now, snapshot)))
        });
        match read {
            Ok(None) => complaint.clear(),
            Ok(Some((now, snapshot))) => {
                tracing::info!("layers read again");
                put(&watched, snapshot);
                texts = now;
                complaint.clear();
            }
            Err(error) => {
                let said = chain(&error);
                if said != complaint {
                    tracing::warn!(problem = %said, "layers can't be read, the last good ones stay");
                    complaint = said;
                }
            }
        }
    }
}
