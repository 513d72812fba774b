//! Layers in files, many of them, one of which changes all the time.

use std::{
    error::Error,
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::{task::JoinHandle, time::interval};

use crate::common::report::recorded;

/// The layer that changes, and what of it.
const CHANGING: (&str, &str) = ("00-default.yaml", "eu-north-2");

/// The recorded layers, and so many more that each is for some of the namespaces.
pub(crate) fn write(folder: &Path, count: u32) -> Result<(), Box<dyn Error>> {
    let mut there = 0;
    for entry in fs::read_dir(recorded().join("layers"))? {
        let path = entry?.path();
        fs::copy(&path, folder.join(path.file_name().unwrap_or_default()))?;
        there += 1;
    }
    for number in there..count.max(there) {
        let text = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: team-{number:03}\n  labels: {{podlayer.dev/layer: \
             default, podlayer.dev/order: \"{number}\"}}\ndata:\n  match: |\n    namespaces: [\"team-*{number:03}\"]\n  \
             podSpecPatch: |\n    nodeSelector: {{ci.example.com/team: \"{number}\"}}\n    containers:\n    - name: \
             container-0\n      resources:\n        requests: {{cpu: \"{}\", memory: {}Gi}}\n      env:\n      - \
             {{name: TEAM_NUMBER, value: \"{number}\"}}\n      - {{name: TEAM_CACHE, value: /cache/{number}}}\n",
            number % 8 + 1,
            number % 32 + 1,
        );
        fs::write(folder.join(format!("team-{number:03}.yaml")), text)?;
    }
    Ok(())
}

/// A task that changes one layer again and again.
pub(crate) struct Changes {
    task: JoinHandle<io::Result<()>>,
    made: Arc<AtomicU32>,
}

impl Changes {
    pub(crate) fn start(folder: PathBuf, every: Duration) -> Result<Self, Box<dyn Error>> {
        let text = fs::read_to_string(folder.join(CHANGING.0))?;
        if !text.contains(CHANGING.1) {
            return Err(format!("{} no longer holds {:?}", CHANGING.0, CHANGING.1).into());
        }
        let made = Arc::new(AtomicU32::new(0));
        let counted = made.clone();
        let task = tokio::spawn(async move {
            let mut ticks = interval(every);
            loop {
                ticks.tick().await;
                let number = counted.fetch_add(1, Ordering::Relaxed);
                // Moved into its place, so that no half file is ever read.
                let unfinished = folder.join("unfinished");
                fs::write(&unfinished, text.replace(CHANGING.1, &format!("eu-north-{number}")))?;
                fs::rename(&unfinished, folder.join(CHANGING.0))?;
            }
        });
        Ok(Self { task, made })
    }

    /// How many so far.
    pub(crate) fn made(&self) -> u32 {
        self.made.load(Ordering::Relaxed)
    }

    /// Ends them; fails if they have ended by themselves.
    pub(crate) async fn stop(self) -> Result<(), Box<dyn Error>> {
        self.task.abort();
        match self.task.await {
            Ok(ended) => Ok(ended?),
            Err(_) => Ok(()),
        }
    }
}
