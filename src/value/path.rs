use std::fmt;

use super::Value;

/// Where a value stands in a pod: `spec.containers[name=agent].env[name=A].value`.
///
/// Printed as Kubernetes prints field paths, but for list items, which are named by their merge key and not by their
/// number, because numbers change when a layer adds an item. A key of a map that isn't a plain word stands in brackets:
/// `spec.nodeSelector[kubernetes.io/arch]`.
#[derive(Clone, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Path(Vec<Segment>);

/// One step of a [`Path`].
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Segment {
    /// A key of an object.
    Field(String),
    /// The item of a list whose merge key has this value.
    Item {
        /// The merge key: `name`.
        key: String,
        /// Its value as text: `agent`.
        value: String,
    },
    /// The item of a list at this place, counted from 0, where no merge key names it.
    Index(usize),
}

/// Why a text isn't a path.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{what} at character {at} of the path {text:?}")]
pub struct PathError {
    /// The text.
    pub text: String,
    /// Where it goes wrong, counted from 1.
    pub at: usize,
    /// What is wrong there.
    pub what: &'static str,
}

impl Path {
    /// The path to the whole value, which prints as nothing.
    pub fn root() -> Self {
        Self::default()
    }

    /// The path to one field of the whole value.
    pub fn field(name: impl Into<String>) -> Self {
        Self(vec![Segment::Field(name.into())])
    }

    /// The steps from the outermost in.
    pub fn segments(&self) -> &[Segment] {
        &self.0
    }

    /// Whether this is the whole value.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Goes one step further in.
    pub fn push(&mut self, segment: Segment) {
        self.0.push(segment);
    }

    /// Goes one step back out.
    pub fn pop(&mut self) -> Option<Segment> {
        self.0.pop()
    }

    /// This path and one step more.
    pub fn join(&self, segment: Segment) -> Self {
        let mut path = self.clone();
        path.push(segment);
        path
    }

    /// This path, seen from further out: `prefix` first.
    pub fn under(mut self, prefix: &Self) -> Self {
        self.0.splice(0..0, prefix.0.iter().cloned());
        self
    }

    /// Puts one step in front: how an error on its way up learns where it was.
    pub fn prepend(&mut self, segment: Segment) {
        self.0.insert(0, segment);
    }

    /// What stands at this path in a value.
    pub fn find<'v, 'a>(&self, value: &'v Value<'a>) -> Option<&'v Value<'a>> {
        self.0.iter().try_fold(value, |value, segment| match (segment, value) {
            (Segment::Field(name), Value::Object(map)) => map.get(name),
            (Segment::Item { key, value: wanted }, Value::List(items)) => {
                items.iter().find(|item| item.get(key).and_then(Value::scalar_text).is_some_and(|text| text == *wanted))
            }
            (Segment::Index(index), Value::List(items)) => items.get(*index),
            _ => None,
        })
    }

    /// This path without its first steps.
    pub fn without_first(&self, steps: usize) -> Self {
        Self(self.0.get(steps..).unwrap_or_default().to_vec())
    }

    /// Whether `self` is `other` or stands below it.
    pub fn starts_with(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0)
    }

    /// Reads what [`fmt::Display`] prints. `[3]` is read as the item at place 3, `[name=a]` as an item by key, anything
    /// else in brackets as a key of a map; quotes allow any character.
    ///
    /// # Errors
    /// [`PathError`] with the place in the text.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let fail = |at: usize, what| {
            let at = text.get(..at).map_or(0, |head| head.chars().count()) + 1;
            PathError { text: text.to_owned(), at, what }
        };
        let mut path = Self::root();
        let mut rest = text;
        while !rest.is_empty() {
            let at = text.len() - rest.len();
            if let Some(inner) = rest.strip_prefix('[') {
                let (segment, used) =
                    Segment::in_brackets(inner).map_err(|(offset, what)| fail(at + 1 + offset, what))?;
                path.push(segment);
                rest = &inner[used..];
                continue;
            }
            let word = match rest.strip_prefix('.') {
                Some(_) if path.is_root() => return Err(fail(at, "a path can't start with a dot")),
                Some(word) => word,
                None if path.is_root() => rest,
                None => return Err(fail(at, "a dot or a bracket is wanted")),
            };
            let end = word.find(['.', '[', ']']).unwrap_or(word.len());
            if end == 0 {
                return Err(fail(text.len() - word.len(), "a field name is wanted"));
            }
            path.push(Segment::Field(word[..end].to_owned()));
            rest = &word[end..];
        }
        Ok(path)
    }
}

impl Segment {
    /// Reads what stands after `[`; gives the segment and how many bytes it took, the closing bracket included.
    fn in_brackets(inner: &str) -> Result<(Self, usize), (usize, &'static str)> {
        if inner.starts_with('"') {
            let (key, used) = quoted(inner)?;
            let close = inner[used..].starts_with(']');
            return if close { Ok((Self::Field(key), used + 1)) } else { Err((used, "a closing bracket is wanted")) };
        }
        if let Some((key, _)) = inner.split_once("=\"").filter(|(key, _)| !key.contains([']', '='])) {
            let (value, used) = quoted(&inner[key.len() + 1..]).map_err(|(at, what)| (key.len() + 1 + at, what))?;
            let used = key.len() + 1 + used;
            let close = inner[used..].starts_with(']') && !value.is_empty();
            let item = Self::Item { key: key.to_owned(), value };
            return if close { Ok((item, used + 1)) } else { Err((used, "a closing bracket is wanted")) };
        }
        let end = inner.find(']').ok_or((inner.len(), "a closing bracket is wanted"))?;
        let content = &inner[..end];
        let segment = match content.split_once('=') {
            _ if content.is_empty() => return Err((0, "a key is wanted between the brackets")),
            Some((key, value)) => Self::Item { key: key.to_owned(), value: value.to_owned() },
            None => content.parse().map_or_else(|_| Self::Field(content.to_owned()), Self::Index),
        };
        Ok((segment, end + 1))
    }
}

/// Reads a JSON string at the start of a text; gives it and how many bytes it took.
fn quoted(text: &str) -> Result<(String, usize), (usize, &'static str)> {
    let mut strings = serde_json::Deserializer::from_str(text).into_iter::<String>();
    match strings.next() {
        Some(Ok(string)) => Ok((string, strings.byte_offset())),
        _ => Err((0, "the quotes don't close, or hold what JSON doesn't allow")),
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (depth, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Field(name) if is_word(name) => {
                    if depth > 0 {
                        f.write_str(".")?;
                    }
                    f.write_str(name)?;
                }
                Segment::Field(name) => write!(f, "[{}]", Bracketed(name, true))?,
                Segment::Item { key, value } => write!(f, "[{key}={}]", Bracketed(value, false))?,
                Segment::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// A plain word needs no brackets; `$patch` and the like are shown as written.
fn is_word(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'$'))
}

/// What stands between brackets: as it is where that can be read back, else as a JSON string.
struct Bracketed<'a>(&'a str, bool);

impl fmt::Display for Bracketed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(text, is_key) = *self;
        let ambiguous = text.is_empty()
            || text.starts_with('"')
            || text.contains([']', '\\'])
            || text.chars().any(char::is_control)
            || (is_key && (text.contains('=') || text.parse::<usize>().is_ok()));
        if !ambiguous {
            return f.write_str(text);
        }
        f.write_str(&serde_json::to_string(text).map_err(|_| fmt::Error)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_print_as_kubernetes_does_with_items_by_key() {
        for text in [
            "spec.containers[name=agent].env[name=A].value",
            "spec.nodeSelector[kubernetes.io/arch]",
            "spec.tolerations[0].key",
            "spec.containers[name=a].volumeMounts[mountPath=/a=b.c]",
            r#"spec.nodeSelector["a=b"]"#,
            r#"spec.volumes[name="a]b\n"]"#,
            "spec.containers[name=a].$patch",
        ] {
            assert_eq!(Path::parse(text).unwrap().to_string(), text);
        }
        let item = Path::parse("spec.ports[containerPort=80]").unwrap();
        let key = Segment::Item { key: "containerPort".into(), value: "80".into() };
        assert_eq!(item.segments().last(), Some(&key));
        assert!(item.starts_with(&Path::parse("spec.ports").unwrap()));
    }

    #[test]
    fn what_is_no_path_is_said_with_its_place() {
        for (text, at) in [(".a", 1), ("a..b", 3), ("a[", 3), ("a[]", 3), ("a[b]c", 5), ("a.b]", 4), ("a[\"x]", 3)] {
            assert_eq!(Path::parse(text).unwrap_err().at, at, "{text}");
        }
    }
}
