use std::{borrow::Cow, collections::HashMap};

use super::Value;

/// An object: keys in the order they came, each once.
///
/// Small objects are searched from the front, which is the fastest for the few keys that pods have. From 32 keys on
/// an index joins, so that no input makes work grow with the square of its size.
#[derive(Clone, Debug, Default)]
pub struct Map<'a> {
    entries: Vec<(Cow<'a, str>, Value<'a>)>,
    /// Boxed, since a value of any kind is as large as the largest kind and few objects have one.
    #[allow(clippy::box_collection)]
    index: Option<Box<HashMap<Cow<'a, str>, usize>>>,
}

impl<'a> Map<'a> {
    /// How many keys make an index worth its cost; a container has about 12, an `env` item 2.
    const INDEXED: usize = 32;

    /// An object without keys.
    pub fn new() -> Self {
        Self::default()
    }

    /// An object without keys that has room for some.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { entries: Vec::with_capacity(capacity), index: None }
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Where a key stands, counted from 0 in the order of [`Map::iter`].
    pub fn position(&self, key: &str) -> Option<usize> {
        match &self.index {
            Some(index) => index.get(key).copied(),
            None => self.entries.iter().position(|(known, _)| known == key),
        }
    }

    /// The value under a key.
    pub fn get(&self, key: &str) -> Option<&Value<'a>> {
        self.position(key).map(|at| &self.entries[at].1)
    }

    /// The value under a key, to change.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value<'a>> {
        self.position(key).map(|at| &mut self.entries[at].1)
    }

    /// Whether there is such a key.
    pub fn contains_key(&self, key: &str) -> bool {
        self.position(key).is_some()
    }

    /// Puts a value under a key: in the place of the old one, which comes back, or at the end.
    pub fn insert(&mut self, key: impl Into<Cow<'a, str>>, value: Value<'a>) -> Option<Value<'a>> {
        let key = key.into();
        if let Some(at) = self.position(&key) {
            return Some(std::mem::replace(&mut self.entries[at].1, value));
        }
        if let Some(index) = &mut self.index {
            index.insert(key.clone(), self.entries.len());
        }
        self.entries.push((key, value));
        if self.index.is_none() && self.entries.len() > Self::INDEXED {
            self.reindex();
        }
        None
    }

    /// Takes a key out. The order of the others stays, but for large objects, whose last key moves into the gap.
    pub fn remove(&mut self, key: &str) -> Option<Value<'a>> {
        let at = self.position(key)?;
        let Some(index) = &mut self.index else {
            return Some(self.entries.remove(at).1);
        };
        index.remove(key);
        let (_, value) = self.entries.swap_remove(at);
        if let Some((moved, _)) = self.entries.get(at) {
            index.insert(moved.clone(), at);
        }
        Some(value)
    }

    /// Keeps the entries for which `keep` says so.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &mut Value<'a>) -> bool) {
        let before = self.entries.len();
        self.entries.retain_mut(|(key, value)| keep(key, value));
        if self.index.is_some() && self.entries.len() != before {
            self.reindex();
        }
    }

    /// Keys and values in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value<'a>)> {
        self.entries.iter().map(|(key, value)| (key.as_ref(), value))
    }

    /// Keys and values in order, the values to change.
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = (&str, &mut Value<'a>)> {
        self.entries.iter_mut().map(|(key, value)| {
            let key: &Cow<'a, str> = key;
            (key.as_ref(), value)
        })
    }

    /// The keys in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &str> {
        self.entries.iter().map(|(key, _)| key.as_ref())
    }

    /// A copy that borrows every string from `self`.
    pub fn borrowed<'b>(&'b self) -> Map<'b> {
        let entries = self.entries.iter().map(|(key, value)| (Cow::Borrowed(key.as_ref()), value.borrowed())).collect();
        Map::of(entries)
    }

    /// A copy that owns every string.
    pub fn into_owned(self) -> Map<'static> {
        let own = |(key, value): (Cow<'_, str>, Value<'_>)| (Cow::Owned(key.into_owned()), value.into_owned());
        Map::of(self.entries.into_iter().map(own).collect())
    }

    /// INVARIANT for callers: no key twice.
    fn of(entries: Vec<(Cow<'a, str>, Value<'a>)>) -> Self {
        let mut map = Self { entries, index: None };
        if map.entries.len() > Self::INDEXED {
            map.reindex();
        }
        map
    }

    fn reindex(&mut self) {
        let index = self.entries.iter().enumerate().map(|(at, (key, _))| (key.clone(), at)).collect();
        self.index = Some(Box::new(index));
    }
}

impl<'a> IntoIterator for Map<'a> {
    type Item = (Cow<'a, str>, Value<'a>);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
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
        self.len() == other.len()
            && self.entries.iter().zip(&other.entries).all(|((key, value), (other_key, other_value))| {
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
}
