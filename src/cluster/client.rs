use std::path::Path;

use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};

/// Why the API server can't be reached as configured.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The client can't be made from the configuration.
    #[error("failed to make a client from the cluster configuration")]
    Client(#[source] kube::Error),
    /// Neither a kubeconfig nor a service account was found.
    #[error("failed to find a cluster: no --kubeconfig, no KUBECONFIG, not in a pod; use --layers to run without one")]
    Infer(#[source] kube::config::InferConfigError),
    /// The kubeconfig can't be used.
    #[error("failed to read the kubeconfig {path}")]
    Kubeconfig {
        /// Its path.
        path: String,
        /// Why.
        source: KubeconfigError,
    },
}

/// A client for the cluster that a kubeconfig names, or else the one that podlayer runs in. `context` is one of the
/// kubeconfig's, in the place of its current one.
///
/// # Errors
/// [`ClientError`].
pub async fn client(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Client, ClientError> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let config = match kubeconfig {
        Some(path) => {
            let fail = |source| ClientError::Kubeconfig { path: path.display().to_string(), source };
            let kubeconfig = Kubeconfig::read_from(path).map_err(fail)?;
            Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(fail)?
        }
        None if context.is_some() => Config::from_kubeconfig(&options)
            .await
            .map_err(|source| ClientError::Kubeconfig { path: "of KUBECONFIG or ~/.kube/config".into(), source })?,
        None => Config::infer().await.map_err(ClientError::Infer)?,
    };
    Client::try_from(config).map_err(ClientError::Client)
}
