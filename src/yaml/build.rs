use super::{
    Options, Parsed, Remark,
    error::{Error, ErrorKind},
    event::Node,
    scalar::Scalar,
    stream::{Step, Stream},
};
use crate::value::{Document, Map, Marks, Position, Value};

/// Builds the value of a document, step by step and without recursion, and stops at the first limit it meets.
pub(super) struct Builder<'t> {
    stream: Stream<'t>,
    options: Options,
    /// The lists and objects that are open, outermost first.
    frames: Vec<Frame>,
    remarks: Vec<Remark>,
    nodes: usize,
    copied: usize,
    aliasing: Aliasing,
}

/// A list or object that is open.
enum Frame {
    List {
        at: Position,
        items: Vec<Value<'static>>,
        marks: Vec<Marks>,
    },
    /// The list of objects under a `<<`.
    Merges {
        objects: Vec<(Map<'static>, Vec<Marks>)>,
    },
    Object(Object),
}

struct Object {
    at: Position,
    map: Map<'static>,
    /// Along with the map, entry by entry.
    marks: Vec<Marks>,
    /// Along with the map: whether the entry came through `<<`.
    merged: Vec<bool>,
    pending: Pending,
}

/// What the next scalar, list or object is to an object.
enum Pending {
    Key,
    /// The value of the `<<` that stands here.
    Merge(Position),
    Value(String, Position),
}

impl<'t> Builder<'t> {
    pub(super) fn new(stream: Stream<'t>, options: &Options) -> Self {
        Self {
            stream,
            options: options.clone(),
            frames: Vec::new(),
            remarks: Vec::new(),
            nodes: 0,
            copied: 0,
            aliasing: Aliasing::default(),
        }
    }

    pub(super) fn build(mut self) -> Result<Parsed, Error> {
        let (value, marks) = loop {
            // A text without any document reads as null.
            let Some(step) = self.stream.next()? else { break (Value::Null, Marks::leaf(Position::START)) };
            if let Some(root) = self.step(step)? {
                self.stream.finish(self.options.strict)?;
                break root;
            }
        };
        Ok(Parsed { document: Document { value, marks }, remarks: self.remarks })
    }

    /// Takes a step; gives the whole value when that completes it.
    fn step(&mut self, step: Step) -> Result<Option<(Value<'static>, Marks)>, Error> {
        let Step { at, node, aliased } = step;
        match node {
            Node::Scalar(scalar) => match self.frames.last_mut() {
                Some(Frame::Object(object)) if matches!(object.pending, Pending::Key) => {
                    if scalar.is_merge() && !aliased {
                        object.pending = Pending::Merge(at);
                    } else {
                        self.key(scalar, at, aliased)?;
                    }
                    Ok(None)
                }
                Some(Frame::Merges { .. } | Frame::Object(Object { pending: Pending::Merge(_), .. })) => {
                    Err(ErrorKind::MergeValue.at(at))
                }
                _ => {
                    self.count_value(at, aliased)?;
                    self.note(&scalar, at, false)?;
                    let value = scalar.into_value().map_err(|kind| kind.at(at))?;
                    self.complete(value, Marks::leaf(at))
                }
            },
            Node::List | Node::Object => {
                let list = matches!(node, Node::List);
                let frame = match self.frames.last() {
                    Some(Frame::Object(Object { pending: Pending::Key, .. })) => {
                        // `{{ x }}` is an object with an object as its key.
                        let what = if list { "a list" } else { "an object, as {{ … }} is one," };
                        return Err(ErrorKind::UnsupportedKey { what }.at(at));
                    }
                    Some(Frame::Merges { .. }) if list => return Err(ErrorKind::MergeValue.at(at)),
                    Some(Frame::Object(Object { pending: Pending::Merge(_), .. })) if list => {
                        if aliased {
                            return Err(ErrorKind::MergeValue.at(at));
                        }
                        Frame::Merges { objects: Vec::new() }
                    }
                    _ => {
                        self.count_value(at, aliased)?;
                        if list {
                            Frame::List { at, items: Vec::new(), marks: Vec::new() }
                        } else {
                            Frame::Object(Object::new(at))
                        }
                    }
                };
                let limit = self.options.limits.depth;
                if self.frames.len() >= limit {
                    return Err(ErrorKind::TooDeep { limit }.at(at));
                }
                self.frames.push(frame);
                Ok(None)
            }
            Node::End => match self.frames.pop() {
                Some(Frame::List { at, items, marks }) => {
                    self.complete(Value::List(items), Marks { at, key: None, children: marks })
                }
                Some(Frame::Object(object)) => {
                    self.complete(Value::Object(object.map), Marks { at: object.at, key: None, children: object.marks })
                }
                Some(Frame::Merges { objects }) => {
                    // The earlier of the list wins, so it comes last.
                    for (map, marks) in objects.into_iter().rev() {
                        self.merge(map, marks)?;
                    }
                    if let Some(Frame::Object(object)) = self.frames.last_mut() {
                        object.pending = Pending::Key;
                    }
                    Ok(None)
                }
                None => Ok(None),
            },
            // The stream puts in its place what it stands for.
            Node::Alias { .. } => Ok(None),
        }
    }

    fn key(&mut self, scalar: Scalar, at: Position, aliased: bool) -> Result<(), Error> {
        self.aliasing.count(self.stream.aliases(), aliased, at)?;
        self.note(&scalar, at, true)?;
        let key = scalar.into_key().map_err(|kind| kind.at(at))?;
        if let Some(Frame::Object(object)) = self.frames.last_mut() {
            object.pending = Pending::Value(key, at);
        }
        Ok(())
    }

    /// Puts a value that is complete where it belongs; gives it back where it is the whole.
    fn complete(&mut self, value: Value<'static>, mut mark: Marks) -> Result<Option<(Value<'static>, Marks)>, Error> {
        match self.frames.last_mut() {
            None => return Ok(Some((value, mark))),
            Some(Frame::List { items, marks, .. }) => {
                items.push(value);
                marks.push(mark);
            }
            Some(Frame::Merges { objects }) => {
                if let Value::Object(map) = value {
                    objects.push((map, mark.children));
                }
            }
            Some(Frame::Object(object)) => match std::mem::replace(&mut object.pending, Pending::Key) {
                Pending::Value(key, at) => {
                    mark.key = Some(at);
                    object.set(key, value, mark, None, self.options.strict)?;
                }
                merge @ Pending::Merge(_) => {
                    object.pending = merge;
                    if let Value::Object(map) = value {
                        self.merge(map, mark.children)?;
                    }
                    if let Some(Frame::Object(object)) = self.frames.last_mut() {
                        object.pending = Pending::Key;
                    }
                }
                Pending::Key => {}
            },
        }
        Ok(None)
    }

    /// Puts the entries of an object under `<<` into the object that has it. As in kubectl they win over entries above
    /// them, against YAML's own rule.
    fn merge(&mut self, map: Map<'static>, marks: Vec<Marks>) -> Result<(), Error> {
        let Some(Frame::Object(object)) = self.frames.last_mut() else { return Ok(()) };
        let Pending::Merge(at) = object.pending else { return Ok(()) };
        for ((key, value), mark) in map.into_iter().zip(marks) {
            object.set(key.into_owned(), value, mark, Some(at), self.options.strict)?;
        }
        Ok(())
    }

    fn count_value(&mut self, at: Position, aliased: bool) -> Result<(), Error> {
        self.aliasing.count(self.stream.aliases(), aliased, at)?;
        self.nodes += 1;
        let limit = self.options.limits.nodes;
        if self.nodes > limit { Err(ErrorKind::TooManyNodes { limit }.at(at)) } else { Ok(()) }
    }

    /// Notes what lint wants to know of a scalar, the first time it is met; after that, how much its copies take.
    fn note(&mut self, scalar: &Scalar, at: Position, key: bool) -> Result<(), Error> {
        if self.stream.aliases() == 0 {
            let remark = scalar.surprise(key);
            self.remarks.extend(remark.map(|(written, read_as)| Remark { at, key, written, read_as }));
            return Ok(());
        }
        self.copied = self.copied.saturating_add(scalar.len());
        if self.copied > self.options.limits.bytes { Err(ErrorKind::ExcessiveAliasing.at(at)) } else { Ok(()) }
    }
}

impl Object {
    fn new(at: Position) -> Self {
        Self { at, map: Map::new(), marks: Vec::new(), merged: Vec::new(), pending: Pending::Key }
    }

    /// Sets a key, through the `<<` that stands at `merge` or as itself.
    fn set(
        &mut self,
        key: String,
        value: Value<'static>,
        mark: Marks,
        merge: Option<Position>,
        strict: bool,
    ) -> Result<(), Error> {
        let Some(known) = self.map.position(&key) else {
            self.map.insert(key, value);
            self.marks.push(mark);
            self.merged.push(merge.is_some());
            return Ok(());
        };
        if strict {
            let at = merge.unwrap_or_else(|| mark.shown());
            let first = self.marks[known].shown();
            let merged = merge.is_some() || self.merged[known];
            return Err(if merged {
                ErrorKind::MergedKeyOverridden { key, first }.at(at)
            } else {
                ErrorKind::DuplicateKey { key, first }.at(at)
            });
        }
        self.map.insert(key, value);
        self.marks[known] = mark;
        self.merged[known] = merge.is_some();
        Ok(())
    }
}

/// go-yaml's measure against alias bombs (`decode.go`): of all that it decodes, keys too, not too much may come from
/// aliases; 99 % in documents of usual size, 10 % in huge ones.
struct Aliasing {
    decoded: usize,
    aliased: usize,
}

impl Default for Aliasing {
    fn default() -> Self {
        // The document counts as well.
        Self { decoded: 1, aliased: 0 }
    }
}

impl Aliasing {
    const LOW: usize = 400_000;
    const HIGH: usize = 4_000_000;

    /// Counts a node that stands inside of so many aliases, and the alias itself where one stands for it directly.
    fn count(&mut self, aliases: usize, directly: bool, at: Position) -> Result<(), Error> {
        self.decoded += 1 + usize::from(directly);
        self.aliased += usize::from(aliases > 0) + usize::from(directly && aliases > 1);
        let allowed = match self.decoded {
            ..=Self::LOW => 0.99,
            Self::HIGH.. => 0.10,
            decoded => 0.99 - 0.89 * ((decoded - Self::LOW) as f64 / (Self::HIGH - Self::LOW) as f64),
        };
        let ratio = self.aliased as f64 / self.decoded as f64;
        if self.aliased > 100 && self.decoded > 1000 && ratio > allowed {
            return Err(ErrorKind::ExcessiveAliasing.at(at));
        }
        Ok(())
    }
}
