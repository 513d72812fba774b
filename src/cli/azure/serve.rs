use std::{net::SocketAddr, path::PathBuf, time::Duration};

use kube::runtime::events::{Recorder, Reporter};
use tokio::task::JoinSet;

use super::super::{
    report::{CliError, Outcome},
    start::{self, LogArgs},
};
use crate::{
    azure::{self, Callbacks, Service, Settings},
    certs::files::{self, Files},
    cluster, names,
    server::{self, Drain, Limits, Readiness},
    telemetry::Metrics,
};

/// Flags of `azure serve`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Plain HTTP by default, for an ingress that ends TLS. All replicas answer; what they must agree on is in \
                  the API server. The protocol is a private preview of its vendor: registering a pool may not be \
                  possible for everyone."
)]
pub(super) struct Args {
    /// The cluster; else KUBECONFIG, else the one that podlayer runs in.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Namespaces whose pools are served; else podlayer's own.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', env = "PODLAYER_POOL_NAMESPACES")]
    pool_namespaces: Vec<String>,
    /// podlayer's own namespace.
    #[arg(long, value_name = "NAME", env = "PODLAYER_NAMESPACE", default_value = names::NAMESPACE)]
    own_namespace: String,
    /// The pool that is meant by /acquire and /release, the paths of k8s-poolprovider; else they answer 403.
    #[arg(long, value_name = "NAMESPACE/NAME", env = "PODLAYER_AZURE_DEFAULT_POOL", value_parser = pool)]
    default_pool: Option<(String, String)>,
    /// Address for Azure Pipelines.
    #[arg(long, value_name = "ADDR", default_value_t = SocketAddr::from(([0, 0, 0, 0], names::PORT_AZURE)))]
    addr: SocketAddr,
    /// Address of probes and metrics (plain HTTP).
    #[arg(long, value_name = "ADDR", default_value_t = SocketAddr::from(([0, 0, 0, 0], names::PORT_ADMIN)))]
    admin_addr: SocketAddr,
    /// Certificate chain (PEM), to speak TLS here instead of in front of it; read again when it changes.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its key (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Calls a second that are looked at, for each pool; twice as many at once.
    #[arg(long, value_name = "NUMBER", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    calls_per_second: u32,
    /// How often each replica looks for agents that don't start, or were made too late.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    look_every_seconds: u32,
    /// Hosts of your Azure DevOps Server that may be called back over https, beside dev.azure.com and *.visualstudio.com.
    #[arg(long, value_name = "HOST,…", value_delimiter = ',', env = "PODLAYER_AZURE_CALLBACK_HOSTS")]
    callback_hosts: Vec<String>,
    /// Certificates (PEM) that sign those hosts', beside the public authorities.
    #[arg(long, value_name = "FILE")]
    callback_ca: Option<PathBuf>,
    /// What this process calls itself in events; else HOSTNAME.
    #[arg(long, value_name = "NAME", env = "HOSTNAME", default_value = "podlayer-azure")]
    identity: String,
    #[command(flatten)]
    log: LogArgs,
}

/// Runs `azure serve`.
pub(super) fn run(args: Args) -> Result<Outcome, CliError> {
    start::serve(&args.log.clone(), serve(args))
}

async fn serve(args: Args) -> Result<Outcome, CliError> {
    let namespaces =
        if args.pool_namespaces.is_empty() { vec![args.own_namespace.clone()] } else { args.pool_namespaces };
    if let Some((namespace, name)) = &args.default_pool
        && !namespaces.contains(namespace)
    {
        return Err(CliError::new(format!(
            "--default-pool {namespace}/{name} is in a namespace that isn't served: add {namespace} to \
             --pool-namespaces"
        )));
    }
    let authorities = args.callback_ca.map(|file| {
        let failed = |error| CliError::because(format!("failed to read {}", file.display()), error);
        std::fs::read(&file).map_err(failed)
    });
    let callbacks = Callbacks::new(args.callback_hosts, authorities.transpose()?.as_deref())
        .map_err(|error| CliError::because("failed to prepare calls back", error))?;
    let (metrics, azure_metrics) = Metrics::with_azure();
    let drain = Drain::new();
    let readiness = Readiness::new(drain.clone());
    let all_listed = readiness.condition("pools", "not all pools were listed yet");
    let client = cluster::client(args.kubeconfig.as_deref(), None).await;
    let client = client.map_err(|error| CliError::because("failed to reach the cluster", error))?;
    let certificate = args.tls_cert.zip(args.tls_key).map(|(certificate, key)| {
        let read = Files { certificate, key }.load(metrics.clone());
        read.map_err(|error| CliError::because("failed to read the certificate", error))
    });
    let certificate = certificate.transpose()?;
    let bind = |error| CliError::because("failed to start", error);
    let listener = server::bind(args.addr).await.map_err(bind)?;
    let admin = server::bind(args.admin_addr).await.map_err(bind)?;
    tracing::info!(azure = %args.addr, admin = %args.admin_addr, tls = certificate.is_some(), "listening");

    let reporter = Reporter { controller: "podlayer".into(), instance: Some(args.identity) };
    let recorder = Recorder::new(client.clone(), reporter);
    let settings = Settings {
        namespaces,
        default_pool: args.default_pool,
        calls_per_second: args.calls_per_second,
        look_every: Duration::from_secs(args.look_every_seconds.into()),
        callbacks,
    };
    let (service, watching) = Service::start(client, settings, recorder, azure_metrics);
    // Every task that must not end; the first that does ends the process.
    let mut tasks: JoinSet<Result<Outcome, CliError>> = JoinSet::new();
    let early = |what: &str| Err(CliError::new(format!("{what} ended by itself, please report it")));
    tasks.spawn(async move {
        watching.await;
        early("the watch of the pools")
    });
    let listing = service.clone();
    tokio::spawn(async move {
        listing.ready().await;
        all_listed.set(true);
    });
    let admin = server::serve_admin(admin, readiness, axum::Router::new(), Limits::admin(), metrics.clone());
    tasks.spawn(async move {
        admin.await.map_err(|error| CliError::because("failed", error))?;
        early("the admin port")
    });
    let signals = drain.clone();
    tasks.spawn(async move {
        let stopped = signals.on_signals().await;
        // Told to stop twice.
        stopped.map(|()| Outcome::Clean).map_err(|error| CliError::because("failed to listen to signals", error))
    });
    let router = server::with_fallbacks(azure::router(service), azure::SERVES);
    let limits = Limits::azure();
    if let Some(certificate) = certificate {
        let tls = server::server_config(certificate.serving());
        let tls = tls.map_err(|error| CliError::because("failed to prepare TLS", error))?;
        tasks.spawn(async move { certificate.keep_looking(files::POLL_INTERVAL).await });
        let served = server::serve(listener, tls, router, limits, drain, metrics);
        tasks.spawn(async move {
            served.await.map(|()| Outcome::Clean).map_err(|error| CliError::because("failed to serve", error))
        });
    } else {
        let served = server::serve_plain(listener, router, limits, drain, metrics);
        tasks.spawn(async move {
            served.await.map(|()| Outcome::Clean).map_err(|error| CliError::because("failed to serve", error))
        });
    }
    match tasks.join_next().await {
        Some(Ok(ended)) => ended,
        Some(Err(error)) => Err(CliError::because("a part of podlayer failed, please report it", error)),
        None => Ok(Outcome::Clean),
    }
}

fn pool(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('/').filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty());
    let parts = parts.filter(|(_, name)| !name.contains('/'));
    parts
        .map(|(namespace, name)| (namespace.to_owned(), name.to_owned()))
        .ok_or_else(|| "write the pool's namespace and name, such as ci/linux".to_owned())
}
