use std::{borrow::Cow, iter::successors};

use super::{Struct, text::shown};
use crate::value::{Path, Segment};

/// A place in a patch while it is walked: a step, and the place that it was made from. Costs nothing until a finding
/// asks for its path or its name.
#[derive(Clone, Debug)]
pub(super) struct Place<'w> {
    pub(super) up: Option<&'w Self>,
    pub(super) step: Step<'w>,
    /// What the place holds, where that is an object with known fields.
    pub(super) ty: Option<&'w Struct>,
}

#[derive(Clone, Debug)]
pub(super) enum Step<'w> {
    /// A field that the type graph may know.
    Field(&'w str),
    /// A list item without a usable key.
    Index(usize),
    /// A list item by its merge key.
    Item { key: &'w str, value: Cow<'w, str> },
    /// A key of a map whose keys are free.
    Key(&'w str),
    /// The whole patch.
    Root,
}

impl<'w> Place<'w> {
    pub(super) fn root(ty: Option<&'w Struct>) -> Self {
        Self { up: None, step: Step::Root, ty }
    }

    /// One step further in.
    pub(super) fn down<'n>(&'n self, step: Step<'n>) -> Place<'n> {
        Place { up: Some(self), step, ty: None }
    }

    /// The same place, once it is known what it holds.
    pub(super) fn holding(&self, ty: &'w Struct) -> Self {
        Self { ty: Some(ty), ..self.clone() }
    }

    /// This place and those around it, from the inside out.
    pub(super) fn outwards(&self) -> impl Iterator<Item = &Place<'_>> {
        successors(Some(self), |place| place.up)
    }

    /// The path as the pod's user knows it: `under` first.
    pub(super) fn path(&self, under: &Path) -> Path {
        let mut path = under.clone();
        for place in self.inwards() {
            match &place.step {
                Step::Root => {}
                Step::Field(name) | Step::Key(name) => path.push(Segment::Field((*name).to_owned())),
                Step::Index(index) => path.push(Segment::Index(*index)),
                Step::Item { key, value } => {
                    path.push(Segment::Item { key: (*key).to_owned(), value: value.to_string() });
                }
            }
        }
        path
    }

    /// The place in few words: `the pod spec`, `container-0`, `env A of container-0`, `value of env A in container-0`,
    /// `securityContext.runAsUser`.
    pub(super) fn name(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        let mut open = String::new();
        let (mut key, mut field) = (None, "");
        for place in self.inwards() {
            key = None;
            match &place.step {
                Step::Root => {}
                Step::Field(name) => {
                    push(&mut open, name);
                    field = name;
                }
                Step::Index(index) => open.push_str(&format!("[{index}]")),
                Step::Key(name) => {
                    push(&mut open, name);
                    key = Some(shown(name));
                }
                Step::Item { value, .. } => {
                    let list = singular(field);
                    // A container is what everybody calls by its bare name.
                    parts.push(match list {
                        "" | "container" | "initContainer" | "ephemeralContainer" => shown(value),
                        list => format!("{list} {}", shown(value)),
                    });
                    open.clear();
                }
            }
        }
        if !open.is_empty() {
            // The key of a map says enough where the rest of the name says where the map is.
            parts.push(key.filter(|_| !parts.is_empty()).unwrap_or(open));
        }
        match (parts.pop(), parts.pop()) {
            (None, _) => self.whole().to_owned(),
            (Some(inner), None) => inner,
            (Some(inner), Some(outer)) => {
                let mut name = format!("{inner} of {outer}");
                for part in parts.iter().rev() {
                    name.push_str(" in ");
                    name.push_str(part);
                }
                name
            }
        }
    }

    /// What the whole patch is for.
    fn whole(&self) -> &'static str {
        match self.outwards().last().and_then(|root| root.ty).map(|ty| ty.name.as_ref()) {
            Some("PodSpec") => "the pod spec",
            Some("Pod") => "the pod",
            _ => "the patch",
        }
    }

    fn inwards(&self) -> impl Iterator<Item = &Place<'_>> {
        let places: Vec<_> = self.outwards().collect();
        places.into_iter().rev()
    }
}

/// Puts one more step behind a path that is to be read: as a [`Path`] prints it, but that a name which is shown in quotes
/// is shown in one pair of them.
fn push(open: &mut String, name: &str) {
    let shown = shown(name);
    if shown.starts_with('"') {
        open.push_str(&format!("[{shown}]"));
        return;
    }
    let step = Path::field(shown).to_string();
    if !open.is_empty() && !step.starts_with('[') {
        open.push('.');
    }
    open.push_str(&step);
}

/// What one item of a list is called: `volume` for `volumes`.
fn singular(list: &str) -> &str {
    list.strip_suffix("Aliases").map_or_else(|| list.strip_suffix('s').unwrap_or(list), |_| &list[..list.len() - 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(steps: &[Step<'_>]) -> String {
        fn go(place: &Place<'_>, steps: &[Step<'_>]) -> String {
            match steps {
                [] => place.name(),
                [step, rest @ ..] => go(&place.down(step.clone()), rest),
            }
        }
        go(&Place::root(None), steps)
    }

    fn item<'w>(key: &'w str, value: &'w str) -> Step<'w> {
        Step::Item { key, value: value.into() }
    }

    #[test]
    fn places_are_named_by_what_a_user_knows() {
        use Step::{Field, Index, Key};
        let agent = [Field("spec"), Field("containers"), item("name", "agent")];
        let below = |more: &[Step<'_>]| name(&[&agent, more].concat());
        let env = [Field("env"), item("name", "A")];
        for (got, wanted) in [
            (name(&[]), "the patch"),
            (name(&agent), "agent"),
            (below(&env), "env A of agent"),
            (below(&[&env[..], &[Field("value")]].concat()), "value of env A in agent"),
            (below(&[Field("resources"), Field("limits"), Key("cpu")]), "cpu of agent"),
            (below(&[Field("livenessProbe"), Field("httpGet"), Field("port")]), "livenessProbe.httpGet.port of agent"),
            (below(&[Field("args"), Index(2)]), "args[2] of agent"),
            (name(&[Field("securityContext"), Field("runAsUser")]), "securityContext.runAsUser"),
            (name(&[Field("nodeSelector"), Key("a/b")]), "nodeSelector[a/b]"),
            (name(&[Field("nodeSelector"), Key("a b")]), r#"nodeSelector["a b"]"#),
            (name(&[Field("nodeSelector"), Key("a=b")]), r#"nodeSelector["a=b"]"#),
            (name(&[Field("nodeSelector"), Key(&"k".repeat(80))]), &format!("nodeSelector[\"{}\"…]", "k".repeat(63))),
            (name(&[Field("hostAliases"), item("ip", "::1"), Field("ip")]), "ip of hostAlias ::1"),
            (name(&[Field("volumes"), item("name", "a b"), Field("csi")]), r#"csi of volume "a b""#),
            (name(&[Field("volumes"), item("name", "")]), r#"volume """#),
            (name(&[Field("containers"), Index(1)]), "containers[1]"),
        ] {
            assert_eq!(got, wanted);
        }
    }

    #[test]
    fn the_path_has_what_stands_around_the_patch_in_front() {
        let root = Place::root(None);
        let list = root.down(Step::Field("containers"));
        let place = list.down(item("name", "*"));
        assert_eq!(place.path(&Path::field("spec")).to_string(), "spec.containers[name=*]");
    }
}
