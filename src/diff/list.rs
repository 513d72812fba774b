use ahash::AHashMap;

use super::{
    compare::{Known, compare as compare_values},
    operation::{Operation, Pointer},
};
use crate::value::Value;

/// How many items the operations on one list may shift, each operation all that the list has: an applier copies them
/// (Go's does for every `add`). About a thousand operations on a thousand items, some tens of MiB moved; beyond that the
/// list is replaced as a whole.
const SHIFTS: usize = 1 << 20;

/// Appends what turns one list into another, item by item by merge key, and says whether anything of the old one stays;
/// does nothing and gives none if an item has no usable key.
///
/// An item is the same in both lists if it is the n-th with its key in both. First go those that the new list lacks and
/// those that must move, the last first; then new and moved items come in, the first first, each at its final place;
/// then what changed inside the items that stayed. What moves is kept small by letting a longest run stay that has the
/// right order already.
pub(super) fn compare<'a>(
    before: &[Value<'_>],
    after: &'a [Value<'_>],
    key: &str,
    known: Known,
    pointer: Pointer<'_>,
    out: &mut Vec<Operation<'a>>,
) -> Option<bool> {
    // What nobody changed at both ends stays without being looked at.
    let front = before.iter().zip(after).take_while(|(old, new)| is_shared(old, new, key)).count();
    let rest = before.len().min(after.len()) - front;
    let backwards = before.iter().rev().zip(after.iter().rev()).take(rest);
    let back = backwards.take_while(|(old, new)| is_shared(old, new, key)).count();
    let (old_end, new_end) = (before.len() - back, after.len() - back);
    let (old, new) = (ids(&before[front..old_end], key)?, ids(&after[front..new_end], key)?);
    let inside = known.item();
    if old == new {
        for at in front..new_end {
            compare_values(&before[at], &after[at], inside, Pointer::Index(&pointer, at), out);
        }
        return Some(true);
    }
    let stays = staying(&old, &new);
    let kept = front + stays.iter().flatten().count() + back;
    let operations = (before.len() - kept) + (after.len() - kept);
    if operations > 1 && (kept == 0 || operations.saturating_mul(before.len().max(after.len())) > SHIFTS) {
        let items = after.iter().map(Value::borrowed).collect();
        out.push(Operation::replace(pointer, Value::List(items)));
        return Some(false);
    }
    let mut is_kept = vec![false; old.len()];
    for at in stays.iter().flatten() {
        is_kept[*at] = true;
    }
    for at in (0..old.len()).rev().filter(|at| !is_kept[*at]) {
        out.push(Operation::remove(Pointer::Index(&pointer, front + at)));
    }
    for at in (0..new.len()).filter(|at| stays[*at].is_none()) {
        out.push(Operation::add(Pointer::Index(&pointer, front + at), after[front + at].borrowed()));
    }
    for (at, from) in stays.iter().enumerate() {
        if let Some(from) = from {
            let at = front + at;
            compare_values(&before[front + from], &after[at], inside, Pointer::Index(&pointer, at), out);
        }
    }
    // What stays has its key at least.
    Some(kept > 0)
}

/// Whether an item that has a usable key wasn't changed.
fn is_shared(old: &Value<'_>, new: &Value<'_>, key: &str) -> bool {
    let is_same = matches!((old, new), (Value::Object(old), Value::Object(new)) if old.is_same(new));
    is_same && id(old, key).is_some()
}

/// What tells an item from others: its key's value, with its type as a merge would compare it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Id<'v> {
    Bool(bool),
    Float(u64),
    Int(i64),
    Text(&'v str),
}

fn ids<'v>(items: &'v [Value<'_>], key: &str) -> Option<Vec<Id<'v>>> {
    items.iter().map(|item| id(item, key)).collect()
}

fn id<'v>(item: &'v Value<'_>, key: &str) -> Option<Id<'v>> {
    match item.get(key)? {
        Value::Bool(b) => Some(Id::Bool(*b)),
        Value::Float(f) => Some(Id::Float(f.to_bits())),
        Value::Int(i) => Some(Id::Int(*i)),
        Value::String(s) => Some(Id::Text(s)),
        Value::Uint(u) => Some(Id::Float((*u as f64).to_bits())),
        Value::List(_) | Value::Null | Value::Object(_) => None,
    }
}

/// For each item of the new list, the place in the old one that it keeps its relative place from; none for those that
/// are new or move.
fn staying(old: &[Id<'_>], new: &[Id<'_>]) -> Vec<Option<usize>> {
    let front = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let rest = old.len().min(new.len()) - front;
    let back = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(old, new)| old == new).count();
    let (old_end, new_end) = (old.len() - back, new.len() - back);

    // Each key's places in the old list as a chain, so that equal keys pair up in order. Filled from the back.
    let mut first: AHashMap<Id<'_>, usize> = AHashMap::with_capacity(old_end - front);
    let mut next: Vec<Option<usize>> = vec![None; old_end - front];
    for at in (front..old_end).rev() {
        next[at - front] = first.insert(old[at], at);
    }
    let mut stays: Vec<Option<usize>> = Vec::with_capacity(new.len());
    stays.extend((0..front).map(Some));
    for id in &new[front..new_end] {
        let at = first.get(id).copied();
        match at.and_then(|at| next[at - front]) {
            Some(further) => first.insert(*id, further),
            None => first.remove(id),
        };
        stays.push(at);
    }
    keep_longest_run(&mut stays[front..]);
    stays.extend((old_end..old.len()).map(Some));
    stays
}

/// Leaves a longest increasing subsequence of the numbers and takes the others out.
fn keep_longest_run(numbers: &mut [Option<usize>]) {
    // By length of a run less one: where the run of that length ends that ends with the smallest number.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = vec![None; numbers.len()];
    for at in 0..numbers.len() {
        if numbers[at].is_none() {
            continue;
        }
        let length = ends.partition_point(|end| numbers[*end] < numbers[at]);
        before[at] = length.checked_sub(1).map(|shorter| ends[shorter]);
        match ends.get_mut(length) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    let mut run = ends.last().copied();
    for at in (0..numbers.len()).rev() {
        if run == Some(at) {
            run = before[at];
        } else {
            numbers[at] = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_stay_by_key_and_occurrence() {
        let ids = |text: &'static str| (0..text.len()).map(|at| Id::Text(&text[at..=at])).collect::<Vec<_>>();
        for (old, new, stays) in [
            ("abc", "abc", vec![Some(0), Some(1), Some(2)]),
            ("abc", "nabc", vec![None, Some(0), Some(1), Some(2)]),
            ("abc", "ac", vec![Some(0), Some(2)]),
            ("abc", "cab", vec![None, Some(0), Some(1)]),
            ("abcd", "acbd", vec![Some(0), None, Some(1), Some(3)]),
            ("aab", "aaab", vec![Some(0), Some(1), None, Some(2)]),
            ("ab", "cd", vec![None, None]),
            ("", "a", vec![None]),
            ("abab", "baba", vec![None, Some(0), None, Some(2)]),
        ] {
            let got = staying(&ids(old), &ids(new));
            let kept = |stays: &[Option<usize>]| stays.iter().flatten().count();
            assert_eq!(kept(&got), kept(&stays), "{old} {new} {got:?}");
            assert!(got.iter().flatten().is_sorted_by(|a, b| a < b), "{old} {new} {got:?}");
            for (at, from) in got.iter().enumerate() {
                assert!(from.is_none_or(|from| old.as_bytes()[from] == new.as_bytes()[at]), "{old} {new}");
            }
        }
    }
}
