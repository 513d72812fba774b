//! What is wrong with layers and step patches, as one text for everybody.

use std::fmt;

use crate::{
    merge,
    schema::{Finding, FindingKind},
    value::{Path, Position},
    yaml,
};

/// One thing that is wrong with a layer or a step patch: what, and where somebody must look.
///
/// The same text reaches the log of a build, an Event, `kubectl` and `podlayer lint`, so it is made in one place: the
/// cause comes first, since some of those show no more than its first 50 characters.
#[derive(Debug)]
pub struct Complaint {
    /// What is wrong.
    pub cause: Cause,
    /// The text that is wrong.
    pub place: Place,
    /// Where in that text.
    pub at: Option<Position>,
}

/// Which text a complaint is about.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Place {
    /// An annotation of the pod or of the Job's pod template.
    Annotation(&'static str),
    /// One key of a ConfigMap's data, or the ConfigMap as a whole.
    ConfigMap {
        /// As in [`super::LayerSource::title`].
        title: String,
        /// The key of its data.
        key: Option<String>,
    },
    /// A file or another named text.
    Text(String),
}

/// What is wrong.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// The containers that the patch names aren't there.
    #[error("no {list} named {name:?}{hint}", list = if *.init { "init container" } else { "container" })]
    AbsentContainer {
        /// The name that the patch has.
        name: String,
        /// Whether it stands under `initContainers`.
        init: bool,
        /// The nearest name and what else to do, ready to print.
        hint: String,
    },
    /// A ConfigMap that can't be a layer, or a part of it that can't be read.
    #[error("{0}")]
    Config(String),
    /// A field of a ConfigMap that is none of a layer's texts, or a text that it lacks.
    #[error("{text}")]
    Manifest {
        /// What is wrong.
        text: String,
        /// Which field of the ConfigMap it is.
        field: Path,
    },
    /// The merge refuses to put the patch on this pod.
    #[error("{0}")]
    Merge(#[source] Box<merge::Error>),
    /// No container fits the pattern of a step patch.
    #[error("no {list} {verb} {name:?}{hint}", list = if *.init { "init container" } else { "container" },
            verb = if .name.starts_with('@') { "plays" } else { "fits" })]
    NoFit {
        /// The pattern.
        name: String,
        /// Whether it stands under `initContainers`.
        init: bool,
        /// The nearest name and what there is, ready to print.
        hint: String,
    },
    /// The layer would change what no layer may change.
    #[error("{path} can't be changed by a layer: {why}")]
    Protected {
        /// What it would change.
        path: Path,
        /// Whose it is.
        why: &'static str,
    },
    /// A layer that guard rails hold chooses what runs in a container that another one gives privileges.
    #[error("{0}")]
    Gains(Box<Forbidden>),
    /// Guard rails forbid something that the layer does.
    #[error("{0}")]
    Rules(Box<Forbidden>),
    /// With the other layers it makes a pod that the API server would refuse.
    #[error("{path} {what}")]
    Broken {
        /// What would be refused.
        path: Path,
        /// Why, and what to write instead.
        what: String,
    },
    /// The patch has a field that pods don't have, a value of the wrong type, or something refused.
    #[error("{0}")]
    Schema(Box<Finding>),
    /// The layer's `match` doesn't fit the pod that it and the other layers make.
    #[error("its match does not fit the pod that the layers make")]
    Unmatched,
    /// The layer's effect on the pod never came to rest.
    #[error("never comes to rest: it and other layers undo each other's work")]
    Unsettled,
    /// The text isn't YAML.
    #[error("{0}")]
    Yaml(#[source] Box<yaml::Error>),
}

/// What guard rails forbid.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{path} {what}{}, {rules}", others(also))]
pub struct Forbidden {
    /// The first thing.
    pub path: Path,
    /// What is wrong with it.
    pub what: String,
    /// The others.
    pub also: Vec<Path>,
    /// The rule set: `step-rules/ci`.
    pub rules: String,
}

/// Other paths behind the first.
fn others(paths: &[Path]) -> String {
    const MOST: usize = 3;
    let named: Vec<String> = paths.iter().take(MOST).map(|path| format!("; nor {path}")).collect();
    let more = if paths.len() > MOST { format!(" and {} more", paths.len() - MOST) } else { String::new() };
    named.concat() + &more
}

impl Complaint {
    /// The same complaint with all places that it names moved into the text around this one.
    pub fn moved(self, place: &dyn Fn(Position) -> Position) -> Self {
        let cause = match self.cause {
            Cause::Yaml(error) => Cause::Yaml(Box::new(error.moved(place))),
            Cause::Schema(finding) => Cause::Schema(Box::new(finding.moved(place))),
            cause => cause,
        };
        Self { cause, place: self.place, at: self.at.map(place) }
    }

    /// Where the fault is, without a word of what stands there: all that a log may hold of a pod.
    pub fn whereabouts(&self) -> String {
        let path = match &self.cause {
            Cause::Merge(error) => error.path.to_string(),
            Cause::Broken { path, .. } | Cause::Protected { path, .. } => path.to_string(),
            Cause::Gains(forbidden) | Cause::Rules(forbidden) => forbidden.path.to_string(),
            Cause::Schema(finding) => finding.path.to_string(),
            _ => String::new(),
        };
        let at = self.at.map(|at| format!(", {at}")).unwrap_or_default();
        let comma = if path.is_empty() { "" } else { ", " };
        format!("{}{comma}{}{at}", Printable(&path), self.place)
    }

    /// The whole, but without any value that stands in the text: for what more people read than the text itself.
    pub fn without_values(&self) -> String {
        let cause = match &self.cause {
            Cause::Schema(finding) => match &finding.kind {
                FindingKind::WrongType { what, wanted, .. } => format!("{what}: {wanted} is wanted"),
                FindingKind::DirectiveValue { directive, owner, wanted, .. } => {
                    format!("{directive} in {owner} must be {wanted}")
                }
                FindingKind::NotAMap { .. } => "the patch must be a map of pod spec fields".to_owned(),
                kind => kind.to_string(),
            },
            Cause::Yaml(error) => match error.kind() {
                yaml::ErrorKind::BadTag { tag, .. } => format!("a value can't be read as !!{tag}"),
                yaml::ErrorKind::Syntax { problem, .. } => (*problem).to_owned(),
                kind => kind.to_string(),
            },
            // What was got comes last in these texts.
            Cause::Config(text) | Cause::Manifest { text, .. } => {
                text.split(", got ").next().unwrap_or_default().to_owned()
            }
            Cause::Merge(_) => "the patch can't be merged".to_owned(),
            cause => cause.to_string(),
        };
        let comma = if cause.ends_with('?') { "" } else { "," };
        let at = self.at.map(|at| format!(", {at}")).unwrap_or_default();
        format!("{}{comma} {}{at}", Printable(&cause), self.place)
    }

    /// The cause and the text it is about, without the position in that text: for where a better position is known.
    pub fn without_position(&self) -> String {
        let cause = self.cause.to_string();
        let comma = if cause.ends_with('?') { "" } else { "," };
        format!("{}{comma} {}", Printable(&cause), self.place)
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.without_position())?;
        match self.at {
            Some(at) => write!(f, ", {at}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Annotation(key) => write!(f, "annotation {key}"),
            Self::ConfigMap { title, key: Some(key) } => write!(f, "{} {}", Printable(title), Printable(key)),
            Self::ConfigMap { title, key: None } => Printable(title).fmt(f),
            Self::Text(name) => Printable(name).fmt(f),
        }
    }
}

/// Text of a user with its control characters escaped: the API server drops a warning that has one, and a log line
/// with one can be forged.
pub struct Printable<'a>(pub &'a str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            if c.is_control()
                || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
            {
                write!(f, "{}", c.escape_default())?;
            } else {
                fmt::Write::write_char(f, c)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{LayerSource, Scope, parse},
        *,
    };
    use crate::names;

    #[test]
    fn the_cause_comes_first_and_the_place_last() {
        let complaint = Complaint {
            cause: Cause::Config("unknown key \"a\nb\"".into()),
            place: Place::ConfigMap { title: "ConfigMap podlayer/base".into(), key: Some("match".into()) },
            at: Some(Position { line: 3, column: 5 }),
        };
        assert_eq!(complaint.to_string(), "unknown key \"a\\nb\", ConfigMap podlayer/base match, line 3 column 5");
    }

    #[test]
    fn a_text_without_values_says_what_is_wrong_and_where_and_no_more() {
        let layer = |patch: &str| LayerSource {
            name: "base".into(),
            labels: [(names::LAYER.to_owned(), "default".to_owned()), (names::ORDER.to_owned(), "CANARY".to_owned())]
                .into(),
            data: [(names::KEY_PATCH.to_owned(), patch.to_owned())].into(),
            ..LayerSource::default()
        };
        for (patch, wanted) in [
            (
                "hostNetwork: CANARY",
                "hostNetwork: true or false is wanted, ConfigMap base podSpecPatch, line 1 column 14",
            ),
            (
                "hostnetwork: CANARY",
                "unknown field \"hostnetwork\" in the pod spec, did you mean \"hostNetwork\"? ConfigMap",
            ),
            ("CANARY", "the patch must be a map of pod spec fields, ConfigMap base podSpecPatch"),
            ("containers: [{name: a, $patch: CANARY}]", "$patch in a must be"),
            ("priority: !!int CANARY", "a value can't be read as !!int"),
            ("a: 'CANARY\nb: CANARY", ", ConfigMap base podSpecPatch, line "),
        ] {
            let error = parse(&layer(patch), Scope { own_namespace: "podlayer" }).unwrap_err();
            let text: Vec<String> = error.0.iter().map(Complaint::without_values).collect();
            let text = text.join("\n");
            assert!(text.contains(wanted) && text.contains("a whole number is wanted"), "{patch}: {text}");
            assert!(!text.contains("CANARY"), "{patch}: {text}");
        }
    }
}
