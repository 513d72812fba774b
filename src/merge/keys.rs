use ahash::AHashMap;

use super::Uncomparable;
use crate::value::{Kind, Value};

/// What stands for the value of a merge key, or for a whole scalar item: a small number, the same for equal values. So
/// all of ordering works on arrays of numbers and looks nothing up twice.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Id {
    /// A scalar; the number counts distinct ones from 0.
    Scalar(usize),
    /// A list, which Go can't compare with another list.
    List,
    /// An object, which Go can't compare with another object.
    Object,
}

/// Gives equal scalars equal numbers.
#[derive(Debug)]
enum Ids<'v> {
    /// Of few scalars, each is compared with all before it.
    Few(Vec<Scalar<'v>>),
    Many(AHashMap<Scalar<'v>, usize>),
}

/// A scalar as Go's `==` sees it: equal only with the same type. Floats by their bits, zero without its sign.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Scalar<'v> {
    Null,
    Bool(bool),
    Int(i64),
    Float(u64),
    String(&'v str),
}

impl<'v> Ids<'v> {
    /// How many scalars make an index worth its cost.
    const MANY: usize = 12;

    fn with_capacity(capacity: usize) -> Self {
        if capacity < Self::MANY {
            Self::Few(Vec::with_capacity(capacity))
        } else {
            Self::Many(AHashMap::with_capacity(capacity))
        }
    }

    /// The number of this value.
    fn id(&mut self, value: &'v Value<'_>) -> Id {
        let float = |f: f64| Scalar::Float(if f == 0.0 { 0 } else { f.to_bits() });
        let scalar = match value {
            Value::Null => Scalar::Null,
            Value::Bool(b) => Scalar::Bool(*b),
            Value::Int(i) => Scalar::Int(*i),
            Value::Uint(u) => float(*u as f64),
            Value::Float(f) => float(*f),
            Value::String(s) => Scalar::String(s),
            Value::List(_) => return Id::List,
            Value::Object(_) => return Id::Object,
        };
        Id::Scalar(self.number(scalar))
    }

    fn number(&mut self, scalar: Scalar<'v>) -> usize {
        let next = self.distinct();
        match self {
            Self::Few(known) => known.iter().position(|known| *known == scalar).unwrap_or_else(|| {
                known.push(scalar);
                next
            }),
            Self::Many(known) => *known.entry(scalar).or_insert(next),
        }
    }

    /// How many distinct scalars there have been.
    fn distinct(&self) -> usize {
        match self {
            Self::Few(known) => known.len(),
            Self::Many(known) => known.len(),
        }
    }
}

/// What names the items of the lists that meet in a merge.
#[derive(Debug)]
pub(super) struct Keys {
    /// Those of the live list; `None` where an item has no key.
    pub(super) live: Vec<Option<Id>>,
    /// Those of the patch's list.
    pub(super) patch: Vec<Option<Id>>,
    /// Those of a `$setElementOrder`.
    pub(super) order: Vec<Option<Id>>,
    /// How many different scalars there are among them.
    pub(super) distinct: usize,
}

impl Keys {
    /// Reads the merge key of each item, or where there is none takes the item itself.
    pub(super) fn read(live: &[Value<'_>], patch: &[Value<'_>], order: &[Value<'_>], key: Option<&str>) -> Self {
        let expected = live.len() + patch.len() + order.len();
        let mut ids = Ids::with_capacity(expected);
        let mut all = |items| Self::of(&mut ids, items, key);
        let (live, patch, order) = (all(live), all(patch), all(order));
        Self { live, patch, order, distinct: ids.distinct() }
    }

    fn of<'v>(ids: &mut Ids<'v>, items: &'v [Value<'_>], key: Option<&str>) -> Vec<Option<Id>> {
        let of_item = |item: &'v Value<'_>| match key {
            Some(key) => item.get(key),
            None => Some(item),
        };
        items.iter().map(|item| of_item(item).map(|value| ids.id(value))).collect()
    }
}

/// Where in a list each number stands first.
#[derive(Debug)]
pub(super) struct Ranks {
    first: Vec<Option<usize>>,
    lists: bool,
    objects: bool,
}

impl Ranks {
    /// The ranks in this list; `distinct` is that of their [`Keys`].
    pub(super) fn of(list: impl IntoIterator<Item = Id>, distinct: usize) -> Self {
        let mut ranks = Self { first: vec![None; distinct], lists: false, objects: false };
        for (at, id) in list.into_iter().enumerate() {
            match id {
                Id::Scalar(number) => _ = ranks.first[number].get_or_insert(at),
                Id::List => ranks.lists = true,
                Id::Object => ranks.objects = true,
            }
        }
        ranks
    }

    /// Where a value stands first.
    ///
    /// # Errors
    /// Where Go's search panics: for a list or an object when the list has another one. (It never stops before it meets
    /// that one, since they equal nothing.)
    pub(super) fn find(&self, id: Id) -> Result<Option<usize>, Uncomparable> {
        match id {
            Id::Scalar(number) => Ok(self.first[number]),
            Id::List if self.lists => Err(Uncomparable(Kind::List)),
            Id::Object if self.objects => Err(Uncomparable(Kind::Object)),
            Id::List | Id::Object => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Map;

    #[test]
    fn equal_values_of_one_type_have_one_number_however_many_there_are() {
        let texts: Vec<Value<'_>> = (0..1000i64).map(|i| Value::from((i % 500).to_string())).collect();
        let mut ids = Ids::with_capacity(texts.len());
        let numbers: Vec<Id> = texts.iter().map(|text| ids.id(text)).collect();
        assert_eq!(ids.distinct(), 500);
        assert_eq!(numbers[..500], numbers[500..]);
    }

    #[test]
    fn values_of_different_types_are_never_equal() {
        let values = [Value::Int(1), Value::Float(1.0), Value::from("1"), Value::Bool(true), Value::Null];
        let mut ids = Ids::with_capacity(0);
        for value in &values {
            ids.id(value);
        }
        assert_eq!(ids.distinct(), values.len());
        assert_eq!(ids.id(&Value::Float(0.0)), ids.id(&Value::Float(-0.0)));
        assert_eq!(ids.id(&Value::Uint(1 << 63)), ids.id(&Value::Float(9_223_372_036_854_775_808.0)));
    }

    #[test]
    fn lists_and_objects_are_looked_for_only_where_there_is_none() {
        let (list, object) = (Value::List(vec![]), Value::Object(Map::new()));
        let mut ids = Ids::with_capacity(0);
        let ranks = Ranks::of([ids.id(&list)], 0);
        assert_eq!(ranks.find(ids.id(&object)), Ok(None));
        assert_eq!(ranks.find(ids.id(&list)), Err(Uncomparable(Kind::List)));
    }
}
