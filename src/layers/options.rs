use super::{Complaint, Place, UnionList, fields::Fields};
use crate::value::Document;

/// How a layer applies.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Options {
    /// Whether it changes pods at all.
    pub mode: Mode,
    /// What happens to a field that the pod has already.
    pub apply: Apply,
    /// Whether a pod that the layer fails on is refused.
    pub required: bool,
    /// What happens to a container that the patch names and the pod lacks.
    pub absent_containers: AbsentContainers,
    /// Lists that a merge replaces as a whole, and this layer adds to.
    pub union_lists: Vec<UnionList>,
}

/// What happens to a field that the pod has already.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Apply {
    /// It stays, unless the API server filled it in.
    IfAbsent,
    /// It gets the layer's value.
    #[default]
    Override,
}

/// Whether decisions take effect.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Mode {
    /// Decided and told, but the pod stays as it is.
    Audit,
    /// Decided and done.
    #[default]
    Enforce,
}

/// What happens to a container that a patch names and the pod lacks.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum AbsentContainers {
    /// Added, as kubectl does, with or without an image.
    Add,
    /// Added if the patch gives it an image, else skipped.
    #[default]
    Auto,
    /// The layer fails.
    Error,
    /// Skipped.
    Skip,
}

impl Options {
    /// Reads the `options` key.
    ///
    /// # Errors
    /// A complaint about the first key or value that is wrong.
    pub(super) fn parse(document: &Document, place: &Place) -> Result<Self, Complaint> {
        let known = ["mode", "apply", "required", "absentContainers", "unionLists"];
        let fields = Fields::document(document, "options", &known, place.clone())?;
        let union_list = |entry: super::fields::Entry<'_>| {
            let text = fields.string_of("unionLists", entry)?;
            UnionList::parse(&text)
                .map_err(|error| fields.complaint(format!("options.unionLists: {error}"), entry.marks.at))
        };
        let modes = [("Audit", Mode::Audit), ("Enforce", Mode::Enforce)];
        let apply = [("IfAbsent", Apply::IfAbsent), ("Override", Apply::Override)];
        let absent = [
            ("Add", AbsentContainers::Add),
            ("Auto", AbsentContainers::Auto),
            ("Error", AbsentContainers::Error),
            ("Skip", AbsentContainers::Skip),
        ];
        Ok(Self {
            mode: fields.choice("mode", &modes)?.unwrap_or_default(),
            apply: fields.choice("apply", &apply)?.unwrap_or_default(),
            required: fields.bool("required")?.unwrap_or_default(),
            absent_containers: fields.choice("absentContainers", &absent)?.unwrap_or_default(),
            union_lists: fields.list("unionLists")?.into_iter().map(union_list).collect::<Result<_, _>>()?,
        })
    }
}
