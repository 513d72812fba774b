use std::collections::BTreeSet;

use super::{
    Uncomparable,
    keys::{Id, Keys, Ranks},
    list::Merged,
    order,
};
use crate::value::Value;

/// Merges two lists of scalars as sets: each value once, the patch's order before the live one's.
pub(super) fn merge<'a>(
    mut live: Vec<Value<'a>>,
    patch: Vec<Value<'a>>,
    keys: &Keys,
) -> Result<Merged<'a>, Uncomparable> {
    let before: Vec<Id> = keys.live.iter().copied().flatten().collect();
    let named = Ranks::of(keys.patch.iter().copied().flatten(), keys.distinct);
    let in_place = capacity(live.len()) >= live.len() + patch.len();
    live.extend(patch);
    let all = keys.live.iter().chain(&keys.patch).copied().flatten();
    let mut row = Row { places: (0..live.len()).collect(), ids: all.collect() };
    let length = row.deduplicate(keys.distinct);

    let seen = if in_place { row.places[..before.len()].iter().map(|at| row.ids[*at]).collect() } else { before };
    row.places.truncate(length);
    let ids: Vec<Id> = row.places.iter().map(|at| row.ids[*at]).collect();
    let order = order::order(&ids, |_| false, &named, &Ranks::of(seen.iter().copied(), keys.distinct))?;
    let places: Vec<usize> = order.iter().map(|at| row.places[*at]).collect();
    let ids = order.iter().map(|at| ids[*at]).collect();
    Ok(Merged { items: order::arrange(live, &places), ids, live: seen })
}

/// How much memory Go holds for a list that it read from JSON. Whether the patch fits in there decides whether removing
/// duplicates also changes the list that the order is taken from. It only matters to a live list with duplicates, for which
/// kubectl and the API server differ too; this is kubectl's way (above 32 items Go's version decides).
fn capacity(length: usize) -> usize {
    if length == 0 { 0 } else { length.next_power_of_two() }
}

/// The places of the items of both lists, in the order they stand in.
struct Row {
    places: Vec<usize>,
    /// What stands at each place.
    ids: Vec<Id>,
}

impl Row {
    /// Removes duplicates as Go does: the last item moves into the gap, and the row's length, which is given back, shrinks.
    /// What stands behind it stays.
    fn deduplicate(&mut self, distinct: usize) -> usize {
        let mut length = self.places.len();
        let mut met = vec![false; distinct];
        let mut is_new = |id: &Id| match id {
            Id::Scalar(number) => !std::mem::replace(&mut met[*number], true),
            Id::List | Id::Object => true,
        };
        if self.ids.iter().all(&mut is_new) {
            return length;
        }
        // Where each value stands; of those that are passed nothing needs to be known any more.
        let mut known = vec![BTreeSet::new(); distinct];
        for (at, id) in self.ids.iter().enumerate() {
            if let Id::Scalar(number) = id {
                known[*number].insert(at);
            }
        }
        let mut at = 0;
        while at < length {
            let Id::Scalar(number) = self.ids[self.places[at]] else {
                at += 1;
                continue;
            };
            known[number].remove(&at);
            while let Some(gap) = known[number].pop_first() {
                length -= 1;
                if gap != length {
                    if let Id::Scalar(moved) = self.ids[self.places[length]] {
                        known[moved].remove(&length);
                        known[moved].insert(gap);
                    }
                    self.places[gap] = self.places[length];
                }
            }
            at += 1;
        }
        length
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{JsonLimits, from_json, to_json};

    fn merged(live: &str, patch: &str) -> String {
        let list = |text: &str| {
            let items: Vec<String> = text.chars().map(|c| format!("\"{c}\"")).collect();
            let Value::List(items) =
                from_json(&format!("[{}]", items.join(",")), JsonLimits::DEFAULT).unwrap().into_owned()
            else {
                panic!("a list was written")
            };
            items
        };
        let (live, patch) = (list(live), list(patch));
        let keys = Keys::read(&live, &patch, &[], None);
        let items = merge(live, patch, &keys).unwrap().items;
        to_json(&Value::List(items)).replace(['"', ',', '[', ']'], "")
    }

    #[test]
    fn new_scalars_come_first_and_none_stands_twice() {
        assert_eq!(merged("abc", "da"), "dabc");
        assert_eq!(merged("", "aab"), "ab");
        assert_eq!(merged("abc", "cc"), "abc");
    }

    #[test]
    fn duplicates_in_the_live_list_go_as_gos_memory_has_it() {
        assert_eq!(merged("aabc", ""), "acb");
        assert_eq!(merged("aab", "c"), "acb");
        assert_eq!(merged("aabd", "c"), "cabd");
    }
}
