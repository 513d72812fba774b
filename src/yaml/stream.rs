use std::ops::Range;

use super::{
    error::{Error, ErrorKind},
    event::{Event, Node},
    json::JsonEvents,
    reader::YamlEvents,
};
use crate::value::Position;

/// The events of a document with each alias replaced by the events of what it stands for.
///
/// From an anchor on events are kept, and an alias plays them again. So what it stands for is never held twice but in
/// the value that is being built, and whoever builds that one can stop an alias bomb at any step.
pub(super) struct Stream<'t> {
    source: Source<'t>,
    log: Vec<Event>,
    /// By the number of the anchor, where in the log its node stands; `None` while that one is still open.
    spans: Vec<Option<Range<usize>>>,
    /// The anchors on lists and objects that are open, with how many of those were open around them.
    anchored: Vec<(usize, usize, usize)>,
    open: usize,
    /// What is being played again, outermost first.
    replays: Vec<Range<usize>>,
}

/// Where events come from.
pub(super) enum Source<'t> {
    /// A JSON text.
    Json(JsonEvents<'t>),
    /// A YAML text.
    Yaml(Box<YamlEvents<'t>>),
}

/// An event, never an alias.
pub(super) struct Step {
    /// Where it stands; for what an alias stands for directly, where the alias stands.
    pub(super) at: Position,
    /// What it is.
    pub(super) node: Node,
    /// Whether an alias stands for it directly.
    pub(super) aliased: bool,
}

impl<'t> Stream<'t> {
    pub(super) fn new(source: Source<'t>) -> Self {
        Self { source, log: Vec::new(), spans: Vec::new(), anchored: Vec::new(), open: 0, replays: Vec::new() }
    }

    /// How many aliases deep the last step was.
    pub(super) fn aliases(&self) -> usize {
        self.replays.len()
    }

    /// The next step, or `None` at the end of the document.
    pub(super) fn next(&mut self) -> Result<Option<Step>, Error> {
        let Some(event) = self.event()? else { return Ok(None) };
        let Node::Alias { anchor, name } = event.node else {
            return Ok(Some(Step { at: event.at, node: event.node, aliased: false }));
        };
        let Some(span) = self.spans.get(anchor).cloned().flatten() else {
            return Err(ErrorKind::SelfReference { anchor: name }.at(event.at));
        };
        self.replays.push(span);
        let target = self.event()?;
        Ok(target.map(|target| Step { at: event.at, node: target.node, aliased: true }))
    }

    /// See [`YamlEvents::finish`].
    pub(super) fn finish(&mut self, only: bool) -> Result<(), Error> {
        match &mut self.source {
            Source::Json(_) => Ok(()),
            Source::Yaml(events) => events.finish(only),
        }
    }

    fn event(&mut self) -> Result<Option<Event>, Error> {
        while let Some(replay) = self.replays.last_mut() {
            if let Some(event) = replay.next().and_then(|at| self.log.get(at)) {
                return Ok(Some(event.clone()));
            }
            self.replays.pop();
        }
        let event = match &mut self.source {
            Source::Json(events) => events.next()?,
            Source::Yaml(events) => events.next()?,
        };
        if let Some(event) = &event {
            self.keep(event);
        }
        Ok(event)
    }

    /// Logs an event if it belongs to something with an anchor.
    fn keep(&mut self, event: &Event) {
        let start = self.log.len();
        if event.anchor.is_some() || !self.anchored.is_empty() {
            self.log.push(event.clone());
        }
        let starts = matches!(event.node, Node::List | Node::Object);
        if let Some(anchor) = event.anchor {
            // Anchors come in the order of their numbers.
            self.spans.push((!starts).then_some(start..start + 1));
            if starts {
                self.anchored.push((anchor, start, self.open));
            }
        }
        match event.node {
            Node::List | Node::Object => self.open += 1,
            Node::End => {
                self.open = self.open.saturating_sub(1);
                if let Some((anchor, start, _)) = self.anchored.pop_if(|(.., around)| *around == self.open) {
                    self.spans[anchor] = Some(start..self.log.len());
                }
            }
            Node::Alias { .. } | Node::Scalar(_) => {}
        }
    }
}
