use std::sync::Arc;

use tokio::{sync::mpsc, task::JoinSet};

use super::{
    api::Key,
    follow::follow,
    observe::Happening,
    task::{Shared, keep},
};

/// Watches, and keeps every pool right while this process leads. Ends only if a part of it does.
pub async fn run(shared: Arc<Shared>, namespaces: Vec<String>) {
    let (appeared, mut pools) = mpsc::unbounded_channel();
    let mut tasks = JoinSet::new();
    let (client, world) = (shared.client.clone(), shared.world.clone());
    let counting = shared.clone();
    // All replicas see the same: the leader counts it.
    let happened = move |pool: &Key, happening: Happening| {
        if counting.leading.borrow().is_none() {
            return;
        }
        match happening {
            Happening::Evicted => counting.metrics.evicted(pool),
            Happening::Placed(after) => counting.metrics.placed(pool, after),
            Happening::Started(after) => counting.metrics.started(pool, after),
        }
    };
    let watching = follow(client, namespaces, world, appeared, happened);
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
