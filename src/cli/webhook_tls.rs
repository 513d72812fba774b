//! The certificate part of `webhook`: where the certificate comes from, by flags.

use std::{path::PathBuf, sync::Arc};

use kube::Client;

use super::report::CliError;
use crate::{
    certs::{
        files::{self, Files},
        lifetimes::Lifetimes,
        managed::{self, Managed, ObjectNames},
        serving::Serving,
    },
    names,
    server::Condition,
    telemetry::Metrics,
};

/// Where the certificate comes from.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
enum TlsMode {
    /// podlayer keeps a CA in a Secret and the caBundle of its webhook configurations.
    #[value(name = "Managed")]
    Managed,
    /// Somebody else writes --tls-cert and --tls-key, and the caBundle.
    #[value(name = "Files")]
    Files,
}

/// The certificate flags of `webhook`.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Certificate")]
pub(super) struct TlsArgs {
    /// Where the certificate comes from; Files with --tls-cert or --layers, else Managed.
    #[arg(long, value_name = "MODE", env = "PODLAYER_TLS_MODE")]
    tls_mode: Option<TlsMode>,
    /// Certificate chain of the webhook, PEM; read again when it changes.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its key, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Managed: the Secret in podlayer's own namespace that holds the CA.
    #[arg(long, value_name = "NAME", default_value = names::CA_SECRET, env = "PODLAYER_TLS_SECRET")]
    tls_secret: String,
    /// Managed: the Service in podlayer's own namespace that the certificate is for.
    #[arg(long, value_name = "NAME", default_value = names::SERVICE, env = "PODLAYER_TLS_SERVICE")]
    tls_service: String,
    /// Managed: the mutating and the validating webhook configuration whose caBundle podlayer writes.
    #[arg(
        long,
        value_name = "NAME",
        default_value = names::WEBHOOK_CONFIGURATION,
        env = "PODLAYER_WEBHOOK_CONFIGURATION"
    )]
    webhook_configuration: String,
}

/// What is served, and the work that keeps it good.
pub(super) enum Certificates {
    /// Read from two files.
    Files(files::Watched),
    /// Made by podlayer.
    Managed(Box<Managed>),
}

impl TlsArgs {
    /// The certificate that the flags ask for. There is a client unless podlayer runs without a cluster.
    pub(super) fn certificates(
        self,
        client: Option<&Client>,
        own_namespace: &str,
        metrics: Metrics,
    ) -> Result<Certificates, CliError> {
        let files = self.tls_cert.zip(self.tls_key);
        let by_files = files.is_some() || client.is_none();
        let mode = self.tls_mode.unwrap_or(if by_files { TlsMode::Files } else { TlsMode::Managed });
        match (mode, client, files) {
            (TlsMode::Files, _, Some((certificate, key))) => {
                let read = Files { certificate, key }.load(metrics);
                read.map(Certificates::Files)
                    .map_err(|error| CliError::because("failed to read the certificate", error))
            }
            (TlsMode::Files, None, None) => Err(CliError::new(
                "--layers runs without a cluster, so the certificate must come from files: give --tls-cert and \
                 --tls-key (`podlayer certs` makes some)",
            )),
            (TlsMode::Files, Some(_), None) => Err(CliError::new(
                "--tls-mode=Files needs --tls-cert and --tls-key, such as a mounted Secret's tls.crt and tls.key",
            )),
            (TlsMode::Managed, _, Some(_)) => Err(CliError::new(
                "--tls-mode=Managed makes its own certificate: leave out --tls-cert and --tls-key, or write \
                 --tls-mode=Files",
            )),
            (TlsMode::Managed, None, None) => Err(CliError::new(
                "--tls-mode=Managed keeps its CA in a cluster, and --layers runs without one: give --tls-cert and \
                 --tls-key instead (`podlayer certs` makes some)",
            )),
            (TlsMode::Managed, Some(client), None) => {
                let objects = ObjectNames {
                    namespace: own_namespace.to_owned(),
                    secret: self.tls_secret,
                    mutating: self.webhook_configuration.clone(),
                    validating: self.webhook_configuration,
                };
                // API servers ask for the first; people and meshes for the others.
                let service = format!("{}.{own_namespace}", self.tls_service);
                let dns_names = vec![format!("{service}.svc"), format!("{service}.svc.cluster.local"), service];
                let poll = managed::POLL_INTERVAL;
                let made = Managed::new(client, &objects, dns_names, Lifetimes::default(), poll, metrics);
                made.map(|managed| Certificates::Managed(Box::new(managed)))
                    .map_err(|error| CliError::because("--tls-service and --own-namespace make no DNS name", error))
            }
        }
    }
}

impl Certificates {
    /// What is served.
    pub(super) fn serving(&self) -> Arc<Serving> {
        match self {
            Self::Files(watched) => watched.serving(),
            Self::Managed(managed) => managed.serving(),
        }
    }

    /// Looks after the certificate until the future is dropped; meets the condition while callers trust it, as far as
    /// podlayer can know.
    pub(super) async fn keep(self, condition: Condition) -> ! {
        match self {
            Self::Files(watched) => {
                condition.set(true);
                watched.keep_looking(files::POLL_INTERVAL).await
            }
            Self::Managed(managed) => {
                let mut trusted = managed.trusted();
                tokio::spawn(async move {
                    // An error means that the work has ended, which ends the process anyway.
                    while trusted.changed().await.is_ok() {
                        condition.set(*trusted.borrow_and_update());
                    }
                });
                managed.run().await
            }
        }
    }
}
