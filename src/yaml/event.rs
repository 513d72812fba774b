use super::scalar::Scalar;
use crate::value::Position;

/// One step through a document.
#[derive(Clone, Debug)]
pub(super) struct Event {
    /// Where it stands.
    pub(super) at: Position,
    /// What it is.
    pub(super) node: Node,
    /// The anchor on it: anchors are numbered from 0 in the order they come.
    pub(super) anchor: Option<usize>,
}

/// What an event is.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// What an earlier anchor names stands here once more.
    Alias {
        /// The anchor's number.
        anchor: usize,
        /// Its name.
        name: String,
    },
    /// The innermost list or object ends.
    End,
    /// A list starts.
    List,
    /// An object starts: keys and values follow in turn.
    Object,
    /// A scalar, be it key or value.
    Scalar(Scalar),
}
