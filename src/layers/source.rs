use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What a layer is read from: the parts of a ConfigMap that count, whoever holds it.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct LayerSource {
    /// The ConfigMap's namespace; empty for a file that names none.
    pub namespace: String,
    /// The ConfigMap's name, which is the layer's.
    pub name: String,
    /// The ConfigMap's labels.
    pub labels: BTreeMap<String, String>,
    /// The ConfigMap's data.
    pub data: BTreeMap<String, String>,
    /// The keys of its binaryData, none of which mean anything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub binary_keys: Vec<String>,
}

/// A source as one text: a third of the memory, for what is kept only to be compared, or for a bad day.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Packed {
    json: Box<str>,
    /// The bytes of its data.
    pub(super) size: usize,
}

impl Packed {
    /// Packs a source.
    pub(super) fn of(source: &LayerSource) -> Self {
        // INVARIANT: strings only, which serde_json can't refuse.
        #[allow(clippy::expect_used)]
        let json = serde_json::to_string(source).expect("a layer's source is JSON");
        Self { json: json.into(), size: source.data.values().map(String::len).sum() }
    }

    /// The source again.
    pub(super) fn unpack(&self) -> LayerSource {
        // INVARIANT: `of` wrote it.
        #[allow(clippy::expect_used)]
        serde_json::from_str(&self.json).expect("what was packed can be unpacked")
    }
}

impl LayerSource {
    /// How people name it: `ConfigMap podlayer/base`.
    pub fn title(&self) -> String {
        Self::title_of(&self.namespace, &self.name)
    }

    /// The same for a name without the rest.
    pub(super) fn title_of(namespace: &str, name: &str) -> String {
        if namespace.is_empty() { format!("ConfigMap {name}") } else { format!("ConfigMap {namespace}/{name}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_out_as_it_was() {
        let source = LayerSource {
            namespace: "podlayer".into(),
            name: "base".into(),
            labels: [("a".into(), "\"".into())].into(),
            data: [("podSpecPatch".into(), "é: \u{1}\n".into()), ("b".into(), String::new())].into(),
            binary_keys: vec!["c".into()],
        };
        let packed = Packed::of(&source);
        assert_eq!((packed.size, packed.unpack()), ("é: \u{1}\n".len(), source.clone()));
        assert_ne!(packed, Packed::of(&LayerSource { binary_keys: Vec::new(), ..source }));
    }
}
