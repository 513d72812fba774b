use super::{Error, ErrorKind, Merge, Mode};
use crate::schema::{Field, Type, TypeId};

/// What the schema says about a value that both documents have.
#[derive(Clone, Copy, Debug)]
pub(super) enum Schema {
    /// A type of the graph.
    Known(TypeId),
    /// Below a field that the graph lacks; only [`Mode::Lenient`] gets there.
    Unknown,
}

/// How a list is merged.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListRule<'g> {
    /// The type of its items.
    pub(super) item: Schema,
    /// Whether it is merged at all; if not, the patch's list replaces the pod's.
    pub(super) merge: bool,
    /// The key that names its items.
    pub(super) key: Option<&'g str>,
}

impl<'g> Merge<'g> {
    /// The type of a field that is an object in both documents.
    ///
    /// # Errors
    /// In strict mode, where the schema has no such field.
    pub(super) fn object_field(&self, owner: Schema, name: &str) -> Result<Schema, Error> {
        Ok(self.field(owner, name)?.map_or(Schema::Unknown, |field| Schema::Known(field.ty)))
    }

    /// How a field that is a list in both documents is merged.
    ///
    /// # Errors
    /// In strict mode, where the schema has no such field, or it is no list. A pointer to something else than a list is
    /// no error and a list that isn't merged, as in Go.
    pub(super) fn list_field(&self, owner: Schema, name: &str) -> Result<ListRule<'g>, Error> {
        const REPLACED: ListRule<'_> = ListRule { item: Schema::Unknown, merge: false, key: None };
        let Some(field) = self.field(owner, name)? else {
            return Ok(REPLACED);
        };
        let (list, pointer) = match self.graph.ty(field.ty) {
            Type::Ptr(to) => (*to, true),
            _ => (field.ty, false),
        };
        let item = match self.graph.ty(list) {
            Type::Slice(item) => *item,
            _ if pointer => list,
            _ if self.mode == Mode::Lenient => return Ok(REPLACED),
            other => return Err(Error::new(ErrorKind::NoList { wanted: noun(other) }).in_field(name)),
        };
        Ok(ListRule { item: Schema::Known(item), merge: field.merge, key: field.key.as_deref() })
    }

    /// `None` is for the fields that lenient mode lets pass.
    fn field(&self, owner: Schema, name: &str) -> Result<Option<&'g Field>, Error> {
        let Schema::Known(owner) = owner else {
            return Ok(None);
        };
        let kind = match self.graph.target(owner).1 {
            Type::Struct(owner) => match owner.field_ignoring_case(name) {
                Some(field) => return Ok(Some(field)),
                None => ErrorKind::UnknownField { owner: owner.name.to_string(), field: name.to_owned() },
            },
            other => ErrorKind::NoFields { owner: noun(other) },
        };
        match self.mode {
            Mode::Lenient => Ok(None),
            Mode::Strict => Err(Error::new(kind).in_field(name)),
        }
    }
}

fn noun(ty: &Type) -> &'static str {
    match ty {
        Type::Bool => "true or false",
        Type::Int(_) => "a whole number",
        Type::Map(_) => "a map of plain values",
        Type::Ptr(_) | Type::Struct(_) => "an object",
        Type::Slice(_) => "a list",
        Type::String => "text",
    }
}
