use std::{borrow::Cow, ptr, slice, sync::Arc, vec};

use ahash::AHashMap;

use super::Value;

/// An object: keys in the order they came, each once.
///
/// A copy shares its entries with the original until one of the two is changed, and then only that level is copied.
/// So a pod is copied in no time, what no layer touches stays shared, and shared parts are equal at a glance.
///
/// Small objects are searched from the front, which is the fastest for the few keys that pods have. From 32 keys on
/// an index joins, so that no input makes work grow with the square of its size.
#[derive(Clone, Debug, Default)]
pub struct Map<'a> {
    /// Nothing for an object without keys.
    own: Option<Arc<Entries<'a>>>,
    /// Where these are another's, such as a layer's: many threads read those, so nobody counts who shares them.
    lent: Option<&'a Entries<'a>>,
}

#[derive(Clone, Debug, Default)]
struct Entries<'a> {
    list: Vec<Entry<'a>>,
    /// Boxed, since nearly no object has one.
    index: Option<Box<AHashMap<Cow<'a, str>, usize>>>,
}

pub(super) type Entry<'a> = (Cow<'a, str>, Value<'a>);

impl<'a> Map<'a> {
    /// How many keys make an index worth its cost; a container has about 12, an `env` item 2.
    pub(super) const INDEXED: usize = 32;

    /// An object without keys.
    pub fn new() -> Self {
        Self::default()
    }

    /// An object without keys that has room for some.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { own: Some(Arc::new(Entries { list: Vec::with_capacity(capacity), index: None })), lent: None }
    }

    fn held(&self) -> Option<&Entries<'a>> {
        self.own.as_deref().or(self.lent)
    }

    fn entries(&self) -> &[Entry<'a>] {
        self.held().map_or(&[], |entries| &entries.list)
    }

    /// The entries to change: from here on they are this object's alone.
    fn own(&mut self) -> &mut Entries<'a> {
        if let Some(lent) = self.lent.take() {
            self.own = Some(Arc::new(Entries::of(lent.list.iter().map(lend).collect())));
        }
        Arc::make_mut(self.own.get_or_insert_default())
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.entries().len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.entries().is_empty()
    }

    /// Whether both are copies of one object that nobody has changed since. Equal objects need not be.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self.held(), other.held()) {
            (Some(a), Some(b)) => ptr::eq(a, b),
            (None, None) => true,
            _ => false,
        }
    }

    /// Where a key stands, counted from 0 in the order of [`Map::iter`].
    pub fn position(&self, key: &str) -> Option<usize> {
        let entries = self.held()?;
        match &entries.index {
            Some(index) => index.get(key).copied(),
            None => entries.list.iter().position(|(known, _)| **known == *key),
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
        Some(&mut self.own().list[at].1)
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
            return Some(std::mem::replace(&mut entries.list[at].1, value));
        }
        if let Some(index) = &mut entries.index {
            index.insert(key.clone(), entries.list.len());
        }
        entries.list.push((key, value));
        if entries.index.is_none() && entries.list.len() > Self::INDEXED {
            entries.reindex();
        }
        None
    }

    /// Takes a key out. The order of the others stays, but for large objects, whose last key moves into the gap.
    pub fn remove(&mut self, key: &str) -> Option<Value<'a>> {
        let at = self.position(key)?;
        let entries = self.own();
        let Some(index) = &mut entries.index else {
            return Some(entries.list.remove(at).1);
        };
        index.remove(key);
        let (_, value) = entries.list.swap_remove(at);
        if let Some((moved, _)) = entries.list.get(at) {
            index.insert(moved.clone(), at);
        }
        Some(value)
    }

    /// Keeps the entries for which `keep` says so.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &mut Value<'a>) -> bool) {
        if self.is_empty() {
            return;
        }
        let entries = self.own();
        let before = entries.list.len();
        entries.list.retain_mut(|(key, value)| keep(key, value));
        if entries.index.is_some() && entries.list.len() != before {
            entries.reindex();
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

    /// A copy that borrows all that it has from `self`, in no time and without counting who shares it.
    pub fn borrowed<'b>(&'b self) -> Map<'b> {
        Map { own: None, lent: self.held() }
    }

    /// A copy that owns every string.
    pub fn into_owned(self) -> Map<'static> {
        let own = |(key, value): Entry<'_>| (Cow::Owned(key.into_owned()), value.into_owned());
        Map::of(self.into_iter().map(own).collect())
    }

    /// INVARIANT for callers: no key twice.
    pub(super) fn of(list: Vec<Entry<'a>>) -> Self {
        let own = if list.is_empty() { None } else { Some(Arc::new(Entries::of(list))) };
        Self { own, lent: None }
    }
}

impl<'a> Entries<'a> {
    fn of(list: Vec<Entry<'a>>) -> Self {
        let mut entries = Self { list, index: None };
        if entries.list.len() > Map::INDEXED {
            entries.reindex();
        }
        entries
    }

    fn reindex(&mut self) {
        self.index = Some(Box::new(self.list.iter().enumerate().map(|(at, (key, _))| (key.clone(), at)).collect()));
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
        IntoIter {
            own: self.own.map(Arc::unwrap_or_clone).unwrap_or_default().list.into_iter(),
            lent: self.lent.map_or(&[][..], |lent| &lent.list).iter(),
        }
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
    fn a_copy_shares_until_one_of_the_two_is_changed() {
        let inner: Map<'_> = [("b", Value::Int(1))].into_iter().collect();
        let original: Map<'_> = [("a", Value::Object(inner)), ("c", Value::Int(2))].into_iter().collect();
        let inner = |map: &Map<'static>| map.get("a").unwrap().as_object().unwrap().clone();
        let mut copy = original.clone();
        assert!(copy.is_same(&original) && copy.get_mut("none").is_none() && copy.is_same(&original));
        copy.insert("c", Value::Int(3));
        assert!(!copy.is_same(&original) && inner(&copy).is_same(&inner(&original)));
        copy.get_mut("a").unwrap().as_object_mut().unwrap().remove("b");
        assert_eq!(inner(&original).get("b"), Some(&Value::Int(1)));
        assert_eq!((original.get("c"), inner(&copy).len()), (Some(&Value::Int(2)), 0));
        assert!(copy != original && Map::new() == Map::with_capacity(3));
    }
}
