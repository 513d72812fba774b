use super::{Complaint, Place, fields::Fields};
use crate::value::Document;

/// How a layer applies.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Options {
    /// Whether it changes pods at all.
    pub mode: Mode,
    /// Whether a pod that the layer fails on is refused.
    pub required: bool,
    /// What happens to a container that the patch names and the pod lacks.
    pub absent_containers: AbsentContainers,
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
        let unsupported = |key: &str, entry: super::fields::Entry<'_>| {
            fields.complaint(
                format!("options.{key} is not supported by this version of podlayer, leave it out"),
                entry.marks.shown(),
            )
        };
        if let Some(entry) = fields.get("apply")
            && !fields.choice("apply", &[("IfAbsent", false), ("Override", true)])?.unwrap_or(true)
        {
            return Err(fields.complaint(
                "options.apply: IfAbsent is not supported by this version of podlayer, write Override or leave it out"
                    .into(),
                entry.marks.at,
            ));
        }
        if let Some(entry) = fields.get("unionLists") {
            return Err(unsupported("unionLists", entry));
        }
        let modes = [("Audit", Mode::Audit), ("Enforce", Mode::Enforce)];
        let absent = [
            ("Add", AbsentContainers::Add),
            ("Auto", AbsentContainers::Auto),
            ("Error", AbsentContainers::Error),
            ("Skip", AbsentContainers::Skip),
        ];
        Ok(Self {
            mode: fields.choice("mode", &modes)?.unwrap_or_default(),
            required: fields.bool("required")?.unwrap_or_default(),
            absent_containers: fields.choice("absentContainers", &absent)?.unwrap_or_default(),
        })
    }
}
