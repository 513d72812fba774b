use std::sync::Arc;

use tokio::{sync::mpsc, task::JoinSet};

use super::{
    follow::follow,
    task::{Shared, keep},
};

/// Watches, and keeps every pool right while this process leads. Ends only if a part of it does.
pub async fn run(shared: Arc<Shared>, namespaces: Vec<String>) {
    let (appeared, mut pools) = mpsc::unbounded_channel();
    let mut tasks = JoinSet::new();
    let (client, world) = (shared.client.clone(), shared.world.clone());
    let watching = follow(client, namespaces, world, appeared);
    tokio::pin!(watching);
    loop {
        tokio::select! {
            () = &mut watching => return,
            Some(key) = pools.recv() => { tasks.spawn(keep(shared.clone(), key)); }
            Some(ended) = tasks.join_next() => if let Err(error) = ended {
                // One pool's fault must not be told as if nothing were: the process ends, and starts anew.
                tracing::error!(error = %error, "a pool's task failed, please report it");
                return;
            },
        }
    }
}
