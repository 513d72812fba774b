//! Lists whose items have plain texts for keys, each once: nearly all that there are.
//!
//! The one idea: of all that makes a merged list's order hard (directives, keys that come twice or are no texts) there is
//! nothing in them. Then items that the patch names too are merged where they stand, and only new ones have to find their
//! place. Any other list is left to `list`, which merges these to the same.

use std::{mem, sync::LazyLock};

use ahash::RandomState;

use super::{Error, Merge, fields::Schema};
use crate::value::Value;

/// Items of a patch up to which each is looked for by comparing; more are left to `list`.
const FEW: usize = 16;

/// Keyed anew in each process.
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// For each item of a patch, where the item with its key stands in the live list. Nothing where a list isn't plain.
pub(super) fn places(live: &[Value<'_>], patch: &[Value<'_>], key: &str) -> Option<Vec<Option<usize>>> {
    if patch.len() > FEW {
        return None;
    }
    let mut names: Vec<&str> = Vec::with_capacity(patch.len());
    for item in patch {
        let name = plain_name(item, key)?;
        if names.contains(&name) {
            return None;
        }
        names.push(name);
    }
    let mut places = vec![None; names.len()];
    let mut seen = Seen::with_room_for(live.len());
    for (at, item) in live.iter().enumerate() {
        let name = plain_name(item, key)?;
        if !seen.is_new(name) {
            return None;
        }
        if let Some(named) = names.iter().position(|known| *known == name) {
            places[named] = Some(at);
        }
    }
    Some(places)
}

/// An item's key, where it is a text and the item holds no directive.
fn plain_name<'v>(item: &'v Value<'_>, key: &str) -> Option<&'v str> {
    let mut name = None;
    for (field, value) in item.as_object()?.iter() {
        if field.as_bytes().first() == Some(&b'$') {
            return None;
        }
        if name.is_none() && field == key {
            name = value.as_str();
        }
    }
    name
}

impl Merge<'_> {
    /// Merges lists of which `places` were found.
    pub(super) fn plain<'a>(
        &self,
        mut live: Vec<Value<'a>>,
        patch: Vec<Value<'a>>,
        places: &[Option<usize>],
        ty: Schema,
        key: &str,
    ) -> Result<Vec<Value<'a>>, Error> {
        let mut new = Vec::new();
        for (item, place) in patch.into_iter().zip(places) {
            match place {
                Some(at) => self.item(&mut live[*at], item, *at, ty, key)?,
                None => new.push(item),
            }
        }
        let in_order = places.iter().flatten().is_sorted();
        if let Some(moved) = self.moved
            && !in_order
        {
            moved.set(true);
        }
        if in_order && new.is_empty() {
            return Ok(live);
        }
        let mut is_named = vec![false; live.len()];
        places.iter().flatten().for_each(|at| is_named[*at] = true);
        let (mut new, mut next) = (new.into_iter(), 0);
        let mut items = Vec::with_capacity(live.len() + new.len());
        // Named and new items keep the patch's order. The others come in front of the first named one that they stood in
        // front of; so the patch's new items come first, or behind the named one that the patch has before them.
        for place in places {
            let Some(at) = *place else {
                items.extend(new.next());
                continue;
            };
            for other in next..at {
                if !is_named[other] {
                    items.push(mem::take(&mut live[other]));
                }
            }
            next = next.max(at + 1);
            items.push(mem::take(&mut live[at]));
        }
        let mut left = is_named[next..].iter();
        let mut rest = live.split_off(next);
        if !in_order {
            rest.retain(|_| left.next() == Some(&false));
        }
        items.append(&mut rest);
        Ok(items)
    }
}

/// A set of texts that may take two for one, which costs time and nothing else.
struct Seen(Vec<u64>);

impl Seen {
    /// How far is looked for a free place, so that no texts make it slow: several times as far as ever is needed where a
    /// quarter of the places at most is taken.
    const PROBES: usize = 64;

    fn with_room_for(texts: usize) -> Self {
        Self(vec![0; (4 * texts).next_power_of_two()])
    }

    /// Puts a text in; says whether it wasn't there.
    fn is_new(&mut self, text: &str) -> bool {
        // Never zero, which is a free place.
        let hash = HASHER.hash_one(text) | 1;
        let mask = self.0.len() - 1;
        for probe in 0..Self::PROBES {
            let place = &mut self.0[((hash >> 1) as usize + probe) & mask];
            if *place == 0 {
                *place = hash;
                return true;
            }
            if *place == hash {
                return false;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::{
        merge::{Mode, directives::PATCH, keys::Keys},
        schema::POD,
        value::Map,
    };

    fn items(names: &[u8], value: i64) -> Vec<Value<'static>> {
        let item = |name: &u8| {
            let mut map = Map::new();
            map.insert("name", Value::from(format!("n{name}")));
            map.insert("value", Value::Int(value));
            Value::Object(map)
        };
        names.iter().map(item).collect()
    }

    proptest! {
        #[test]
        fn plain_lists_are_merged_as_any_others(live in vec(0u8..12, 0..12), patch in vec(0u8..14, 0..6)) {
            let (live, patch) = (items(&live, 1), items(&patch, 2));
            let Some(places) = places(&live, &patch, "name") else {
                return Ok(());
            };
            let (moved, moved_there) = (Cell::new(false), Cell::new(false));
            let merge = |moved| Merge { graph: &POD, mode: Mode::Lenient, moved: Some(moved) };
            let keys = Keys::read(&live, &patch, &[], Some("name"));
            let wanted = merge(&moved_there).keyed(live.clone(), patch.clone(), &keys, Schema::Unknown, "name").unwrap();
            let found = merge(&moved).plain(live, patch, &places, Schema::Unknown, "name").unwrap();
            prop_assert_eq!(found, wanted.items);
            prop_assert_eq!(moved.get(), moved_there.get());
        }
    }

    #[test]
    fn lists_with_anything_odd_are_not_plain() {
        let odd = |value: Value<'static>| {
            let mut map = Map::new();
            map.insert("name", value);
            vec![Value::Object(map)]
        };
        let marked = || {
            let mut all = items(&[1], 1);
            all[0].as_object_mut().unwrap().insert(PATCH, Value::from("delete"));
            all
        };
        assert!(places(&items(&[1, 2], 1), &items(&[2, 3], 1), "name").is_some());
        for list in [items(&[1, 1], 1), odd(Value::Int(1)), vec![Value::from("a")], marked(), items(&[1], 1)] {
            let is_plain = list == items(&[1], 1);
            assert_eq!(places(&list, &[], "name").is_some(), is_plain, "{list:?}");
            assert_eq!(places(&[], &list, "name").is_some(), is_plain, "{list:?}");
        }
    }
}
