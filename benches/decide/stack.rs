use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use podlayer::layers::{self, Snapshot};

use crate::review::data;

/// The recorded layers: the file, a text in it, and what stands there when the layer comes again, `{}` being a number:
/// a layer that finds everything as it wants it would cost less than one that has work to do.
const RECORDED: [(&str, &str, &str); 4] = [
    ("00-default.yaml", "value: eu-north-2", "value: eu-north-{}"),
    ("10-class-gpu.yaml", "value: compute,utility", "value: compute,utility,v{}"),
    ("20-team.yaml", "value: render", "value: render-{}"),
    ("30-step.yaml", "toolchain:2026.11", "toolchain:2026.11.{}"),
];

/// Layers, the same ones for both sides.
pub(crate) struct Stack {
    /// How many.
    pub(crate) count: usize,
    /// One file for each, for the peer.
    pub(crate) folder: PathBuf,
    /// What stands in them.
    #[allow(dead_code, reason = "another benchmark's part of it")]
    pub(crate) texts: Vec<String>,
    /// podlayer's form of them.
    pub(crate) snapshot: Snapshot,
}

impl Stack {
    /// So many layers: the recorded ones, and again from the first on.
    pub(crate) fn of(count: usize, folder: &Path) -> Result<Self, Box<dyn Error>> {
        let folder = folder.join(format!("layers-{count}"));
        fs::create_dir_all(&folder).map_err(|error| format!("can't make {}: {error}", folder.display()))?;
        let (mut all, mut texts) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for at in 0..count {
            let (turn, (file, old, new)) = (at / RECORDED.len(), RECORDED[at % RECORDED.len()]);
            let source = data().join("layers").join(file);
            let mut text =
                fs::read_to_string(&source).map_err(|error| format!("can't read {}: {error}", source.display()))?;
            if turn > 0 {
                if !text.contains(old) {
                    return Err(format!("{} no longer holds {old:?}", source.display()).into());
                }
                text = text.replace(old, &new.replace("{}", &turn.to_string()));
            }
            // Both sides go by the names.
            let name = format!("{turn:02}-{file}");
            let copy = folder.join(&name);
            fs::write(&copy, &text).map_err(|error| format!("can't write {}: {error}", copy.display()))?;
            all.push(Arc::new(layers::parse_bare(&name, &text, &name)?));
            texts.push(text);
        }
        Ok(Self { count, folder, texts, snapshot: Snapshot::build(all)? })
    }

    /// Whether these are the layers of the pods on record.
    pub(crate) fn is_recorded(&self) -> bool {
        self.count == RECORDED.len()
    }
}
