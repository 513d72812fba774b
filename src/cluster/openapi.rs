//! The API server's own word on what a pod may hold, asked for once.

use std::time::Duration;

use kube::{Client, api::GetParams, core::Request};
use tokio::time::{sleep, timeout};

use crate::schema::{self, POD};

/// Where the core types' document stands: `/openapi/v3/api/v1`.
const FOLDER: &str = "/openapi/v3/api";
const VERSION: &str = "v1";

/// How long one answer may take: it has a megabyte and a half, which a server that has just started assembles first.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often it is asked by an API server that answers other things.
const TRIES: usize = 3;

/// Adds the fields of pods that the API server knows and this build doesn't. While the API server can't be reached at all
/// this waits, for then nothing else could be read either; one that has no answer to this leaves the fields of this
/// build.
pub(super) async fn extend_schema(client: &Client) {
    let mut tries = 0;
    loop {
        let error = match timeout(PATIENCE, fetch(client)).await {
            Ok(Ok(text)) => match POD.with_openapi(&text) {
                Ok((_, 0)) => return tracing::info!("the API server knows no newer fields of pods than this build"),
                Ok((graph, added)) => {
                    schema::extend(graph);
                    return tracing::info!(added, "newer fields of pods are known from the API server");
                }
                Err(error) => error.to_string(),
            },
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer".to_owned(),
        };
        if matches!(timeout(PATIENCE, client.apiserver_version()).await, Ok(Ok(_))) {
            tries += 1;
        }
        if tries >= TRIES {
            return tracing::warn!(
                error,
                "newer fields of pods are not known: {FOLDER}/{VERSION} of the API server can't be used"
            );
        }
        tracing::debug!(error, "the API server's OpenAPI isn't there yet");
        sleep(Duration::from_secs(1)).await;
    }
}

async fn fetch(client: &Client) -> Result<String, kube::Error> {
    let request = Request::new(FOLDER).get(VERSION, &GetParams::default()).map_err(kube::Error::BuildRequest)?;
    client.request_text(request).await
}
