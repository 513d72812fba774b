use std::{borrow::Cow, mem, ptr, slice, vec};

use ahash::AHashMap;

use super::Value;

/// An object: keys in the order they came, each once.
///
/// One that is [`borrowed`](Self::borrowed) shares its entries with the original until it is changed, and then only that
/// level is copied. So a pod is copied in no time and nobody counts who shares what, what no layer touches stays shared,
/// and shared parts are equal at a glance. A clone copies all that isn't borrowed.
///
/// Small objects are searched from the front, which is the fastest for the few keys that pods have. From 32 keys on
/// an index joins, so that no input makes work grow with the square of its size.
#[derive(Clone, Debug)]
pub struct Map<'a>(Held<'a>);

#[derive(Clone, Debug)]
enum Held<'a> {
    Own(Entries<'a>),
    /// Another's, such as a layer's.
    Lent(&'a Entries<'a>),
}

#[derive(Clone, Debug)]
enum Entries<'a> {
    Few(Vec<Entry<'a>>),
    /// Boxed, since nearly no object is so large.
    Many(Box<Indexed<'a>>),
}

#[derive(Clone, Debug)]
struct Indexed<'a> {
    list: Vec<Entry<'a>>,
    index: AHashMap<Cow<'a, str>, usize>,
}

pub(super) type Entry<'a> = (Cow<'a, str>, Value<'a>);

impl<'a> Map<'a> {
    /// How many keys make an index worth its cost; a container has about 12, an `env` item 2.
    pub(super) const INDEXED: usize = 32;

    /// An object without keys.
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// An object without keys that has room for some.
    pub fn with_capacity(capacity: usize) -> Self {
        Self(Held::Own(Entries::Few(Vec::with_capacity(capacity))))
    }

    fn held(&self) -> &Entries<'a> {
        match &self.0 {
            Held::Own(entries) => entries,
            Held::Lent(entries) => entries,
        }
    }

    fn entries(&self) -> &[Entry<'a>] {
        self.held().list()
    }

    /// The entries to change: from here on they are this object's alone.
    fn own(&mut self) -> &mut Entries<'a> {
        if let Held::Lent(lent) = self.0 {
            self.0 = Held::Own(Entries::of(lent.list().iter().map(lend).collect()));
        }
        match &mut self.0 {
            Held::Own(entries) => entries,
            // INVARIANT: what was lent was made this object's own just above.
            Held::Lent(_) => unreachable!("no longer lent"),
        }
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.entries().len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.entries().is_empty()
    }

    /// Whether one is a borrowed copy of the other, or both of one, that nobody has changed since. Equal objects need not
    /// be.
    pub fn is_same(&self, other: &Self) -> bool {
        ptr::eq(self.entries(), other.entries())
    }

    /// Where a key stands, counted from 0 in the order of [`Map::iter`].
    pub fn position(&self, key: &str) -> Option<usize> {
        match self.held() {
            Entries::Few(list) => list.iter().position(|(known, _)| **known == *key),
            Entries::Many(many) => many.index.get(key).copied(),
        }
    }

    /// The value under a key.
    pub fn get(&self, key: &str) -> Option<&Value<'a>> {
        self.position(key).map(|at| &self.entries()[at].1)
    }

    /// The value under a key, to change.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value<'a>> {
        // Looked for first, so that what is not there is no reason to copy.
        let at = self.position(key)?;
        Some(&mut self.own().list_mut()[at].1)
    }

    /// Whether there is such a key.
    pub fn contains_key(&self, key: &str) -> bool {
        self.position(key).is_some()
    }

    /// Puts a value under a key: in the place of the old one, which comes back, or at the end.
    pub fn insert(&mut self, key: impl Into<Cow<'a, str>>, value: Value<'a>) -> Option<Value<'a>> {
        let key = key.into();
        let known = self.position(&key);
        let entries = self.own();
        if let Some(at) = known {
            return Some(mem::replace(&mut entries.list_mut()[at].1, value));
        }
        match entries {
            Entries::Few(list) => {
                list.push((key, value));
                if list.len() > Self::INDEXED {
                    *entries = Entries::of(mem::take(list));
                }
            }
            Entries::Many(many) => {
                many.index.insert(key.clone(), many.list.len());
                many.list.push((key, value));
            }
        }
        None
    }

    /// Takes a key out. The order of the others stays, but for large objects, whose last key moves into the gap.
    pub fn remove(&mut self, key: &str) -> Option<Value<'a>> {
        let at = self.position(key)?;
        match self.own() {
            Entries::Few(list) => Some(list.remove(at).1),
            Entries::Many(many) => {
                many.index.remove(key);
                let (_, value) = many.list.swap_remove(at);
                if let Some((moved, _)) = many.list.get(at) {
                    many.index.insert(moved.clone(), at);
                }
                Some(value)
            }
        }
    }

    /// Keeps the entries for which `keep` says so.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &mut Value<'a>) -> bool) {
        if self.is_empty() {
            return;
        }
        let entries = self.own();
        let list = entries.list_mut();
        let before = list.len();
        list.retain_mut(|(key, value)| keep(key, value));
        if list.len() != before && before > Self::INDEXED {
            *entries = Entries::of(mem::take(list));
        }
    }

    /// Keys and values in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value<'a>)> {
        self.entries().iter().map(|(key, value)| (key.as_ref(), value))
    }

    /// The keys in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &str> {
        self.entries().iter().map(|(key, _)| key.as_ref())
    }

    /// A copy that borrows all that it has from `self`, in no time.
    pub fn borrowed<'b>(&'b self) -> Map<'b> {
        Map(Held::Lent(self.held()))
    }

    /// A copy that owns every string.
    pub fn into_owned(self) -> Map<'static> {
        let own = |(key, value): Entry<'_>| (Cow::Owned(key.into_owned()), value.into_owned());
        Map::of(self.into_iter().map(own).collect())
    }

    /// INVARIANT for callers: no key twice.
    pub(super) fn of(list: Vec<Entry<'a>>) -> Self {
        Self(Held::Own(Entries::of(list)))
    }
}

impl<'a> Entries<'a> {
    fn of(list: Vec<Entry<'a>>) -> Self {
        if list.len() <= Map::INDEXED {
            return Self::Few(list);
        }
        let index = list.iter().enumerate().map(|(at, (key, _))| (key.clone(), at)).collect();
        Self::Many(Box::new(Indexed { list, index }))
    }

    fn list(&self) -> &[Entry<'a>] {
        match self {
            Self::Few(list) => list,
            Self::Many(many) => &many.list,
        }
    }

    fn list_mut(&mut self) -> &mut Vec<Entry<'a>> {
        match self {
            Self::Few(list) => list,
            Self::Many(many) => &mut many.list,
        }
    }
}

impl Default for Map<'_> {
    fn default() -> Self {
        Self::new()
    }
}

fn lend<'a>((key, value): &'a Entry<'a>) -> Entry<'a> {
    (Cow::Borrowed(key), value.borrowed())
}

/// The entries of an object, in order.
#[derive(Debug)]
pub struct IntoIter<'a> {
    own: vec::IntoIter<Entry<'a>>,
    lent: slice::Iter<'a, Entry<'a>>,
}

impl<'a> Iterator for IntoIter<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        self.own.next().or_else(|| self.lent.next().map(lend))
    }
}

impl<'a> IntoIterator for Map<'a> {
    type Item = Entry<'a>;
    type IntoIter = IntoIter<'a>;

    fn into_iter(self) -> IntoIter<'a> {
        let (own, lent) = match self.0 {
            Held::Own(Entries::Few(list)) => (list, &[][..]),
            Held::Own(Entries::Many(many)) => (many.list, &[][..]),
            Held::Lent(lent) => (Vec::new(), lent.list()),
        };
        IntoIter { own: own.into_iter(), lent: lent.iter() }
    }
}

impl<'a, K: Into<Cow<'a, str>>> FromIterator<(K, Value<'a>)> for Map<'a> {
    fn from_iter<I: IntoIterator<Item = (K, Value<'a>)>>(entries: I) -> Self {
        let mut map = Self::new();
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

/// Equal whatever the order of keys.
impl PartialEq for Map<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other)
            || self.len() == other.len()
                && self.entries().iter().zip(other.entries()).all(|((key, value), (other_key, other_value))| {
                    // The same order is the common case: look it up only where it differs.
                    if key == other_key { value == other_value } else { other.get(key) == Some(value) }
                })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_objects_find_replace_and_remove_like_small_ones() {
        let mut map: Map<'_> = (0..100i64).map(|i| (format!("k{i}"), Value::Int(i))).collect();
        assert_eq!(map.insert("k7", Value::Int(-7)), Some(Value::Int(7)));
        assert_eq!(map.remove("k3"), Some(Value::Int(3)));
        assert_eq!(map.remove("k3"), None);
        map.retain(|key, _| key != "k99");
        assert_eq!(map.len(), 98);
        for (key, value) in map.clone() {
            assert_eq!(map.get(&key), Some(&value));
        }
        assert_eq!(map.borrowed(), map);
    }

    #[test]
    fn equality_ignores_the_order_of_keys() {
        let ab: Map<'_> = [("a", Value::Int(1)), ("b", Value::Int(2))].into_iter().collect();
        let ba: Map<'_> = [("b", Value::Int(2)), ("a", Value::Int(1))].into_iter().collect();
        let aa: Map<'_> = [("a", Value::Int(1)), ("c", Value::Int(2))].into_iter().collect();
        assert_eq!(ab, ba);
        assert_ne!(ab, aa);
    }

    #[test]
    fn a_borrowed_copy_shares_until_it_is_changed() {
        let inner: Map<'_> = [("b", Value::Int(1))].into_iter().collect();
        let original: Map<'_> = [("a", Value::Object(inner)), ("c", Value::Int(2))].into_iter().collect();
        let inner = |map: &Map<'_>| map.get("a").unwrap().as_object().unwrap().len();
        let mut copy = original.borrowed();
        assert!(copy.is_same(&original) && copy.get_mut("none").is_none() && copy.is_same(&original));
        copy.insert("c", Value::Int(3));
        let shared = matches!((copy.get("a"), original.get("a")), (Some(Value::Object(a)), Some(Value::Object(b))) if a.is_same(b));
        assert!(!copy.is_same(&original) && shared);
        copy.get_mut("a").unwrap().as_object_mut().unwrap().remove("b");
        assert_eq!((inner(&original), inner(&copy), original.get("c")), (1, 0, Some(&Value::Int(2))));
        assert!(copy != original && !original.clone().is_same(&original) && Map::new() == Map::with_capacity(3));
    }
}
