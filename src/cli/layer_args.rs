//! Flags of `webhook` about the layers of a cluster.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;

use crate::{cluster::Layers, names};

/// See the module.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Layers")]
pub(super) struct LayerArgs {
    /// Namespaces whose own layers apply to their pods.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', env = "PODLAYER_LAYER_NAMESPACES")]
    layer_namespaces: Vec<String>,
    /// Layers that must be there: one that is missing is told by the metrics, on /layers and by doctor.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', env = "PODLAYER_EXPECT_LAYERS")]
    expect_layers: Vec<String>,
    /// The ConfigMap in podlayer's own namespace that keeps the last good version of bad layers across restarts.
    #[arg(long, value_name = "NAME", default_value = names::LAST_GOOD, env = "PODLAYER_LAST_GOOD",
          value_parser = NonEmptyStringValueParser::new())]
    last_good: String,
}

impl LayerArgs {
    /// What to watch.
    pub(super) fn watched(self, own_namespace: &str) -> Layers {
        let blank = |name: &String| !name.is_empty();
        Layers {
            own_namespace: own_namespace.to_owned(),
            namespaces: self.layer_namespaces.into_iter().filter(blank).collect(),
            expected: self.expect_layers.into_iter().filter(blank).collect(),
            last_good: self.last_good,
            reads_only: false,
        }
    }

    /// What the files under these paths must hold.
    pub(super) fn of_files(self, paths: Vec<PathBuf>, own_namespace: &str) -> super::follow::Followed {
        let Layers { expected, .. } = self.watched(own_namespace);
        super::follow::Followed { paths, own_namespace: own_namespace.to_owned(), expected }
    }
}
