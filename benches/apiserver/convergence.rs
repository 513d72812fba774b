use std::{
    error::Error,
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    api::Api,
    common::spread::Spread,
    installation::{Installation, get},
};

/// How often a replica is asked.
const PAUSE: Duration = Duration::from_millis(5);
/// After which it is called lost.
const PATIENCE: Duration = Duration::from_secs(30);

/// Milliseconds from the write of a changed layer until replicas have it in force.
#[derive(Default)]
pub(crate) struct Convergence {
    pub(crate) first: Spread,
    pub(crate) all: Spread,
    /// When the API server answered the write itself.
    pub(crate) written: Spread,
    /// Each change: written, first, all.
    pub(crate) raw: Vec<[f64; 3]>,
}

/// Changes a layer so many times, and each time waits until every replica shows the new layers.
pub(crate) async fn converge(
    api: &Api,
    installation: &Installation,
    changes: u32,
) -> Result<Convergence, Box<dyn Error>> {
    let path = installation.path_of_first_layer();
    let layer: Value = serde_json::from_str(&api.get(&path).await?)?;
    let text = layer["data"]["podSpecPatch"].as_str().ok_or("the layer has no patch")?;
    let mut measured = Convergence::default();
    for change in 0..changes {
        let admins: Vec<SocketAddr> = installation.replicas.iter().map(|replica| replica.admin()).collect();
        let before: Vec<Option<String>> = admins.iter().map(|admin| hash(*admin)).collect();
        let first = before.first().cloned().flatten().ok_or("a replica doesn't tell its layers")?;
        if before.iter().any(|hash| hash.as_ref() != Some(&first)) {
            return Err(format!("the replicas differ before the change: {before:?}").into());
        }
        let start = Instant::now();
        // In threads, for asking blocks; they ask while the write is still under way.
        let watchers: Vec<_> = admins
            .into_iter()
            .map(|admin| {
                let old = first.clone();
                thread::spawn(move || until_changed(admin, &old, start))
            })
            .collect();
        let patch = json!({"data": {"podSpecPatch": text.replace("eu-north-2", &format!("eu-north-{change}x"))}});
        api.patch(&path, &patch).await?;
        let written = start.elapsed();
        let mut seen = Vec::new();
        for watcher in watchers {
            let found = tokio::task::spawn_blocking(move || watcher.join()).await?;
            seen.push(found.map_err(|_| "a watcher panicked")?.ok_or("a replica never got the change")?);
        }
        let [soonest, latest] = [seen.iter().min(), seen.iter().max()].map(|found| found.map(|(taken, _)| *taken));
        if seen.iter().any(|(_, hash)| *hash != seen[0].1) {
            return Err(format!("the replicas differ after the change: {seen:?}").into());
        }
        let millis = |taken: Duration| taken.as_secs_f64() * 1e3;
        let row = [millis(written), soonest.map_or(f64::NAN, millis), latest.map_or(f64::NAN, millis)];
        measured.written.push(row[0]);
        measured.first.push(row[1]);
        measured.all.push(row[2]);
        measured.raw.push(row);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(measured)
}

/// When a replica's layers are others than before, and what they are then.
fn until_changed(admin: SocketAddr, old: &str, start: Instant) -> Option<(Duration, String)> {
    while start.elapsed() < PATIENCE {
        match hash(admin) {
            Some(new) if new != old => return Some((start.elapsed(), new)),
            _ => thread::sleep(PAUSE),
        }
    }
    None
}

fn hash(admin: SocketAddr) -> Option<String> {
    let answer = get(admin, "/layers")?;
    let page: Value = serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()?;
    page["snapshot"]["hash"].as_str().map(str::to_owned)
}
