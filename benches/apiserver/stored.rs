use std::error::Error;

use podlayer::names;
use serde_json::{Value, json};

use crate::{
    api::Api,
    installation::{By, Installation, bytes},
};

/// What one pod takes in etcd, in bytes: its protobuf as the API server gives it, which is what is stored but for the
/// resourceVersion (some ten bytes in all of them).
pub(crate) struct Stored {
    pub(crate) without_podlayer: usize,
    pub(crate) with_podlayer: usize,
    /// The same pod, its provenance taken away.
    pub(crate) without_provenance: usize,
    /// The same pod, its stamp taken away as well: what the layers themselves come to.
    pub(crate) without_either: usize,
    pub(crate) by_policy: usize,
}

/// Makes a pod of each kind, measures and deletes it.
pub(crate) async fn measure(api: &Api, installation: &Installation) -> Result<Stored, Box<dyn Error>> {
    let mut sizes = Vec::new();
    for by in By::ALL {
        let pod = by.pod()?;
        let path = format!("{}?fieldManager=bench", installation.creation(false));
        let made: Value = serde_json::from_str(&api.create(&path, bytes(&pod)).await?)?;
        let name = made["metadata"]["name"].as_str().ok_or("a pod without name")?;
        let path = format!("{}/{name}", installation.creation(false));
        let size = api.stored_bytes(&path).await?;
        let mut of_this = vec![size];
        if by == By::Podlayer {
            for key in [names::PROVENANCE, names::APPLIED] {
                // By the manager that made the pod, so that no entry of managedFields comes with it.
                let patch = json!({"metadata": {"annotations": {key: null}}});
                api.patch(&format!("{path}?fieldManager=bench"), &patch).await?;
                of_this.push(api.stored_bytes(&path).await?);
            }
        }
        sizes.push(of_this);
        api.delete(&format!("{path}?gracePeriodSeconds=0")).await?;
    }
    let size = |by: usize, at: usize| sizes.get(by).and_then(|of| of.get(at)).copied().unwrap_or_default();
    Ok(Stored {
        without_podlayer: size(0, 0),
        with_podlayer: size(1, 0),
        without_provenance: size(1, 1),
        without_either: size(1, 2),
        by_policy: size(2, 0),
    })
}
