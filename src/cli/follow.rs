//! Layers in files, followed: what changes in them is in force within a second.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use super::{
    files,
    report::{CliError, chain},
};
use crate::{
    cluster::Watched,
    layers::{Layer, Scope, Snapshot, Standing, State, manifest},
    telemetry::Metrics,
};

/// How often the files are looked at: half of the second that a change may take.
const INTERVAL: Duration = Duration::from_millis(500);

/// Which files, and what is expected of them.
pub(super) struct Followed {
    /// Files and folders.
    pub(super) paths: Vec<PathBuf>,
    /// podlayer's own namespace.
    pub(super) own_namespace: String,
    /// Names of layers that must be there.
    pub(super) expected: Vec<String>,
}

/// What was read from files, each with its last good layers.
#[derive(Default)]
struct Shelf {
    files: BTreeMap<PathBuf, Entry>,
    /// Why the layers of all files don't go together, or can't be listed.
    problem: Option<String>,
}

#[derive(Default)]
struct Entry {
    text: String,
    /// Of the last version that can be read.
    layers: Vec<Arc<Layer>>,
    problem: Option<String>,
}

impl Followed {
    /// Reads the files for the first time and goes on following them in the future that it gives.
    ///
    /// # Errors
    /// At once what is wrong with any of them: nobody is served yet, so somebody looks.
    pub(super) fn start(
        self,
        watched: Watched,
        metrics: Metrics,
    ) -> Result<impl Future<Output = Result<&'static str, CliError>>, CliError> {
        let mut shelf = Shelf::default();
        shelf.take(files::texts(&self.paths)?, &self.own_namespace);
        let problems: Vec<&str> = shelf.files.values().filter_map(|entry| entry.problem.as_deref()).collect();
        if !problems.is_empty() {
            return Err(CliError::new(problems.join("\n")));
        }
        let snapshot = shelf.snapshot().map_err(CliError::new)?;
        watched.publish(snapshot, shelf.standings(&self.expected), &metrics);
        Ok(self.follow(shelf, watched, metrics))
    }

    async fn follow(self, mut shelf: Shelf, watched: Watched, metrics: Metrics) -> Result<&'static str, CliError> {
        loop {
            tokio::time::sleep(INTERVAL).await;
            let read = files::texts(&self.paths).map_err(|error| chain(&error)).and_then(|texts| {
                let changed = shelf.take(texts, &self.own_namespace);
                if changed || shelf.problem.is_some() { shelf.snapshot().map(Some) } else { Ok(None) }
            });
            match read {
                Ok(None) => {}
                Ok(Some(snapshot)) => {
                    tracing::info!("layers read again");
                    shelf.problem = None;
                    watched.publish(snapshot, shelf.standings(&self.expected), &metrics);
                }
                Err(problem) if shelf.problem.as_ref() == Some(&problem) => {}
                Err(problem) => {
                    tracing::warn!(problem, "layers can't be read, the last good ones stay");
                    shelf.problem = Some(problem);
                    watched.tell(shelf.standings(&self.expected), &metrics);
                }
            }
        }
    }
}

impl Shelf {
    /// Takes in the texts of all files; says whether any has changed.
    fn take(&mut self, texts: Vec<(PathBuf, String)>, own_namespace: &str) -> bool {
        let there: BTreeSet<PathBuf> = texts.iter().map(|(path, _)| path.clone()).collect();
        let count = self.files.len();
        self.files.retain(|path, _| there.contains(path));
        let mut changed = self.files.len() != count;
        for (path, text) in texts {
            if self.files.get(&path).is_some_and(|entry| entry.text == text) {
                continue;
            }
            changed = true;
            let shown = path.display().to_string();
            let read = manifest::read(&text, &shown, &files::stem(&path), Scope { own_namespace });
            let entry = self.files.entry(path).or_default();
            entry.text = text;
            match read {
                Ok(layers) => {
                    entry.layers = layers.into_iter().map(Arc::new).collect();
                    entry.problem = None;
                }
                Err(error) => {
                    let problem = error.to_string();
                    tracing::warn!(file = shown, problem, "layers can't be read, the last good version stays");
                    entry.problem = Some(problem);
                }
            }
        }
        changed
    }

    fn snapshot(&self) -> Result<Snapshot, String> {
        let layers = self.files.values().flat_map(|entry| entry.layers.iter().cloned());
        Snapshot::build(layers).map_err(|error| format!("failed to put the layers together: {error}"))
    }

    fn standings(&self, expected: &[String]) -> Vec<Standing> {
        let mut standings = Vec::new();
        for (path, entry) in &self.files {
            let problem = entry.problem.as_ref().or(self.problem.as_ref());
            standings.extend(entry.layers.iter().map(|layer| {
                let title = if layer.title.is_empty() { shown(path) } else { layer.title.clone() };
                Standing::in_force(title, layer, problem.cloned())
            }));
            if entry.layers.is_empty() && entry.problem.is_some() {
                standings.push(Standing::absent(shown(path), State::Bad, entry.problem.clone()));
            }
        }
        let layers = || self.files.values().flat_map(|entry| &entry.layers);
        let missing = expected.iter().filter(|name| !layers().any(|layer| layer.id.name == **name));
        standings.extend(missing.map(|name| {
            let problem = "it is expected (--expect-layers) and no file holds it".to_owned();
            Standing::absent(name.clone(), State::Missing, Some(problem))
        }));
        standings
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(files: &[(&str, &str)]) -> Vec<(PathBuf, String)> {
        files.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect()
    }

    #[test]
    fn a_file_that_turns_bad_keeps_its_last_good_layers_and_the_others_go_on() {
        let mut shelf = Shelf::default();
        assert!(shelf.take(texts(&[("a.yaml", "hostNetwork: true"), ("b.yaml", "hostPID: true")]), "podlayer"));
        assert!(!shelf.take(texts(&[("a.yaml", "hostNetwork: true"), ("b.yaml", "hostPID: true")]), "podlayer"));
        let before = shelf.snapshot().unwrap().hash().to_owned();
        assert!(shelf.take(texts(&[("a.yaml", "llamas: true"), ("b.yaml", "hostPID: false")]), "podlayer"));
        let snapshot = shelf.snapshot().unwrap();
        assert_ne!(snapshot.hash(), before, "the good file's change counts");
        assert_eq!(snapshot.layers().count(), 2);
        let states = |shelf: &Shelf| shelf.standings(&[]).iter().map(|standing| standing.state).collect::<Vec<_>>();
        assert_eq!(states(&shelf), [State::Stale, State::Good]);
        assert!(shelf.take(texts(&[("c.yaml", "llamas: true")]), "podlayer"));
        assert_eq!(states(&shelf), [State::Bad]);
        assert_eq!(shelf.snapshot().unwrap().layers().count(), 0, "files that are gone end their layers");
        assert_eq!(shelf.standings(&["base".into()])[1].state, State::Missing);
    }

    #[test]
    fn two_layers_of_one_name_are_told_on_both() {
        let mut shelf = Shelf::default();
        shelf.take(texts(&[("x/a.yaml", "hostNetwork: true"), ("y/a.yaml", "hostPID: true")]), "podlayer");
        shelf.problem = Some(shelf.snapshot().unwrap_err());
        let standings = shelf.standings(&[]);
        assert!(standings.iter().all(|standing| standing.problem.as_deref().unwrap().contains("default/a")));
    }
}
