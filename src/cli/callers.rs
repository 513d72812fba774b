//! Whom the webhook serves: everybody, or callers with a certificate.

use std::{path::PathBuf, sync::Arc};

use rustls::{
    ServerConfig,
    server::{NoClientAuth, ResolvesServerCert, danger::ClientCertVerifier},
};
use tokio::task::JoinSet;

use super::report::CliError;
use crate::{
    certs::{clients::Clients, files::POLL_INTERVAL},
    server,
};

/// Flags about callers.
#[derive(Debug, clap::Args)]
pub(super) struct CallerArgs {
    /// Serve only callers with a certificate of this CA, PEM; read again when it changes. The API server must be told
    /// which certificate to show (docs/client-certificates.md).
    #[arg(long, value_name = "FILE", env = "PODLAYER_CLIENT_CA")]
    client_ca: Option<PathBuf>,
}

impl CallerArgs {
    /// The TLS side of the webhook; looks for a newer CA in a task of its own.
    pub(super) fn tls(
        self,
        certificate: Arc<dyn ResolvesServerCert>,
        tasks: &mut JoinSet<Result<&'static str, CliError>>,
    ) -> Result<Arc<ServerConfig>, CliError> {
        let callers: Arc<dyn ClientCertVerifier> = match self.client_ca {
            None => Arc::new(NoClientAuth),
            Some(file) => {
                let clients = Clients::load(file);
                let clients = clients.map_err(|error| CliError::because("failed to read the client CA", error))?;
                let looking = Arc::clone(&clients);
                tasks.spawn(async move { looking.keep_looking(POLL_INTERVAL).await });
                clients
            }
        };
        server::server_config_for_known(certificate, callers)
            .map_err(|error| CliError::because("failed to set up TLS", error))
    }
}
