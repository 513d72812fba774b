//! Every code that a finding can have, once: what docs/lint.md and `-o sarif` say of it.

use std::fmt::Write;

use super::Severity;
use crate::{layers::Cause, schema::FindingKind};

/// One kind of finding.
#[derive(Debug)]
pub struct Code {
    /// How it is called: `unknown-field`.
    pub name: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What it is, in a few words.
    pub title: &'static str,
    /// Why it matters and what to write instead.
    pub help: &'static str,
}

macro_rules! codes {
    ($($constant:ident $severity:ident $name:literal $title:literal $help:literal)*) => {
        $(pub(crate) const $constant: &Code =
            &Code { name: $name, severity: Severity::$severity, title: $title, help: $help };)*
        /// All of them, by name.
        pub const ALL: &[&Code] = &[$($constant),*];
    };
}

codes! {
    AMBIGUOUS Warning "ambiguous-scalar"
        "a value without quotes is not read as what stands there"
        "`on` is true, `1.20` is 1.2 and `0644` is 420 to kubectl's reader (YAML 1.1). Put the text in quotes. File modes and fields that are true or false are not reported."
    BLANK Error "blank"
        "a name or an image without text"
        "The API server refuses the pod. Leave the line out to keep what the pod has."
    DELETE_BESIDE Error "delete-beside-list"
        "`$deleteFromPrimitiveList/F` beside `F`"
        "The list is merged first and cut afterwards, so that an item in both is gone. Keep one of the two."
    DIRECTIVE Error "directive"
        "a directive that no merge accepts"
        "An unknown name, a field that it can't be used for, or a value that it doesn't take. The text says which."
    DUPLICATE Error "duplicate-item"
        "two items of one list have the same merge key"
        "A merge would fold them into one. Where both are meant (a port in TCP and UDP), write the whole list with the marker `- $patch: replace`."
    EXPANDED Error "expanded-dollar"
        "what is left where something took `$patch` for a variable"
        "Buildkite's pipeline upload and GitLab's variables expand `$patch` to nothing. Write `$$patch` there."
    IGNORED Warning "ignored-directive"
        "a directive where none is read"
        "Items of a list without a merge key (tolerations, envFrom, args) are replaced as a whole; a directive in them does nothing and is dropped."
    LAYER Error "layer"
        "a ConfigMap that is no layer yet"
        "Its labels or its keys are wrong. The text says what to write."
    SECRET Warning "literal-secret"
        "a secret in a layer"
        "Layers are no secret: everybody who may read ConfigMaps or pods reads them. Take it from a Secret by `valueFrom.secretKeyRef`."
    MERGE_KEY Error "merge-key"
        "a list item without the key by which its list is merged"
        "Containers, variables and volumes are told apart by `name`, mounts by `mountPath`, ports by `containerPort`."
    MISPLACED Warning "misplaced-step"
        "a step patch on the Job itself"
        "It is read from the annotations of the Job's pod template. Move it to `spec.template.metadata.annotations`."
    NO_IMAGE Warning "missing-image"
        "a container without an image in a list that is written anew"
        "Behind the marker `- $patch: replace` nothing is left of the pod's own containers, so each must say what it runs, here or in a layer that comes later."
    NO_VOLUME Warning "missing-volume"
        "a mount of a volume that the patch lacks, while it has one of nearly that name"
        "Most often a slip of the pen; the API server refuses a pod with a mount and no volume for it. Nothing is said where no name is near: the pod or another layer may bring the volume."
    PORT Warning "port-protocol"
        "a port with a protocol in a merged list"
        "Ports are merged by `containerPort` alone, so a port that a pod has in TCP and UDP becomes one. Write the whole list with the marker `- $patch: replace`."
    REFUSED Error "refused-field"
        "something that no patch may have"
        "`ephemeralContainers`, `nodeName` in a step, a whole pod in the place of its spec, the patch below its own key."
    REPLACE_MAP Warning "replace-on-absent"
        "`$patch: replace` in an object"
        "Where the pod lacks the object, kubectl's merge sets nothing at all. If it is to be there in any case, write it plainly and set what must go to null."
    REPLACE_ITEM Error "replace-with-name"
        "`$patch: replace` in an item that has other keys"
        "It empties or replaces the whole list, not this item. Write the marker as an item of its own: `- $patch: replace`."
    NOT_TEXT Error "step-not-text"
        "a step patch that isn't text"
        "Annotations are text: write the patch as a block after `|`."
    SYNTAX Error "syntax"
        "not YAML"
        "Nothing of the file can be read. The text names the place and, where it can tell, what to write."
    TRAP Warning "trap"
        "what a CI system takes badly"
        "Each preset's traps stand in [presets.md](presets.md); the text begins with the trap's name."
    TWO_SOURCES Error "two-sources"
        "two of which a pod may have one"
        "`value` with `valueFrom`, two sources of one volume, two handlers of one probe. To change the one for the other, set the old one to null."
    UNESCAPED Error "unescaped-dollar"
        "`$patch` where it is taken for a variable"
        "Buildkite's pipeline upload and GitLab's variables expand it to nothing, and the patch says something else. Write `$$patch`."
    UNKNOWN_FIELD Error "unknown-field"
        "a field that pods don't have"
        "Most often a slip of the pen, or a field one level too high or too low. The text says the nearest."
    UNKNOWN_VALUE Error "unknown-value"
        "a word that the field doesn't take"
        "The API server refuses the pod. Words are told apart by case: `Always`, `ClusterFirst`, `NoSchedule`. The text says the nearest, or all that there are."
    WRONG_TYPE Error "wrong-type"
        "a value of the wrong type"
        "The text says what is wanted and how to write it."
}

/// The code of what is wrong with a layer or a step patch.
pub(super) fn of(cause: &Cause) -> &'static Code {
    match cause {
        Cause::Yaml(_) => SYNTAX,
        Cause::Schema(finding) => of_kind(&finding.kind),
        _ => LAYER,
    }
}

/// The code of what is wrong with a patch's fields.
pub(super) fn of_kind(kind: &FindingKind) -> &'static Code {
    match kind {
        FindingKind::DirectiveField { .. }
        | FindingKind::DirectiveValue { .. }
        | FindingKind::RetainKeysLack { .. }
        | FindingKind::UnknownDirective { .. } => DIRECTIVE,
        FindingKind::DuplicateItem { .. } => DUPLICATE,
        FindingKind::Expanded { .. } => EXPANDED,
        FindingKind::KeyNull { .. } | FindingKind::MissingKey { .. } => MERGE_KEY,
        FindingKind::EphemeralContainers | FindingKind::NodeName => REFUSED,
        FindingKind::PatchKey { .. } | FindingKind::WholePod { .. } => REFUSED,
        FindingKind::UnknownField { .. } => UNKNOWN_FIELD,
        FindingKind::NotAMap { .. } | FindingKind::WrongType { .. } => WRONG_TYPE,
    }
}

/// docs/lint.md.
pub fn markdown() -> String {
    let mut out = String::from(
        "# Findings of `podlayer lint`\n\n\
         Printed by `podlayer lint --codes`; don't edit. An error would be refused or can't be meant; a warning works, but \
         maybe not as meant. Both end with exit code 1.\n\n\
         | code | | what | why, and what to write |\n|---|---|---|---|\n",
    );
    for code in ALL {
        let _ = writeln!(out, "| `{}` | {} | {} | {} |", code.name, code.severity.as_str(), code.title, code.help);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_each_stands_once() {
        let names: Vec<&str> = ALL.iter().map(|code| code.name).collect();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(names, sorted);
    }
}
