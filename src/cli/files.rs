//! Layers in files and folders.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::report::CliError;
use crate::layers::{Layer, ParseError, Scope, Snapshot, manifest};

/// What the files under `--layers` hold.
pub(super) struct LayerFiles {
    /// All layers that can be read.
    pub layers: Vec<Arc<Layer>>,
    /// What is wrong with the others.
    pub problems: Vec<ParseError>,
}

impl LayerFiles {
    /// Reads files and folders (their `.yaml`, `.yml` and `.json` files, in the order of their names).
    ///
    /// # Errors
    /// A path that isn't there or can't be read; what is wrong inside a file is in `problems`.
    pub(super) fn read(paths: &[PathBuf], own_namespace: &str) -> Result<Self, CliError> {
        let texts = texts(paths)?;
        let (mut layers, mut problems) = (Vec::new(), Vec::new());
        for (path, text) in &texts {
            let shown = path.display().to_string();
            match manifest::read(text, &shown, &stem(path), Scope { own_namespace }) {
                Ok(more) => layers.extend(more.into_iter().map(Arc::new)),
                Err(error) => problems.push(error),
            }
        }
        Ok(Self { layers, problems })
    }

    /// A snapshot of the layers.
    ///
    /// # Errors
    /// The first problem, or two layers of one name.
    pub(super) fn snapshot(self) -> Result<Snapshot, CliError> {
        if !self.problems.is_empty() {
            let lines: Vec<String> = self.problems.iter().map(ToString::to_string).collect();
            return Err(CliError::new(lines.join("\n")));
        }
        Snapshot::build(self.layers).map_err(|error| CliError::because("failed to put the layers together", error))
    }
}

/// The texts of files and folders; `-` is stdin.
pub(super) fn texts(paths: &[PathBuf]) -> Result<Vec<(PathBuf, String)>, CliError> {
    let mut files = Vec::new();
    for path in paths {
        if path == Path::new("-") {
            files.push(path.clone());
            continue;
        }
        let metadata = fs::metadata(path).map_err(|error| CliError::file("read", path, error))?;
        if metadata.is_dir() {
            files.extend(in_folder(path)?);
        } else {
            files.push(path.clone());
        }
    }
    files.into_iter().map(|path| text_of(&path).map(|(text, _)| (path, text))).collect()
}

fn in_folder(folder: &Path) -> Result<Vec<PathBuf>, CliError> {
    let fail = |error| CliError::file("list", folder, error);
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        let is_layer =
            path.extension().is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|e| extension == *e));
        if is_layer && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// A file's name without folder and extension: the name of the bare patch in it.
pub(super) fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// The text of a file, or of stdin for `-`; with the name to call it by.
pub(super) fn text_of(path: &Path) -> Result<(String, String), CliError> {
    if path == Path::new("-") {
        return read(path, || io::read_to_string(io::stdin())).map(|text| (text, "stdin".into()));
    }
    read(path, || fs::read_to_string(path)).map(|text| (text, path.display().to_string()))
}

fn read(path: &Path, text: impl FnOnce() -> io::Result<String>) -> Result<String, CliError> {
    text().map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => {
            CliError::new(format!("failed to read {}: it is no text in UTF-8, save it as that", path.display()))
        }
        _ => CliError::file("read", path, error),
    })
}
