use std::cell::Cell;

use super::{
    Uncomparable,
    keys::{Id, Ranks},
};
use crate::value::Value;

/// The order that a merged list gets, as the places its items had before.
///
/// Items that the patch names keep the patch's order and the others the live list's; the two halves are then zipped,
/// one of the others going first only where both heads are in the live list and it stood in front there. Hence new items
/// come before all others, but after a named item that exists.
///
/// `marked` tells which items carry `$patch: delete` themselves (only a pod that was so before can have them): they go to
/// the end of their half.
///
/// # Errors
/// Where Go would compare two keys that are lists or objects.
pub(super) fn order(
    items: &[Id],
    marked: impl Fn(usize) -> bool,
    named: &Ranks,
    live: &Ranks,
) -> Result<Vec<usize>, Uncomparable> {
    let (mut ours, mut others) = (Vec::new(), Vec::with_capacity(items.len()));
    for (at, id) in items.iter().enumerate() {
        let half = if named.find(*id)?.is_some() { &mut ours } else { &mut others };
        half.push(at);
    }
    let ours = sort(ours, items, &marked, named)?;
    let others = sort(others, items, &marked, live)?;

    let mut result = Vec::with_capacity(items.len());
    let (mut ours, mut others) = (ours.into_iter().peekable(), others.into_iter().peekable());
    while let (Some(our), Some(other)) = (ours.peek(), others.peek()) {
        let (other_rank, our_rank) = (live.find(items[*other])?, live.find(items[*our])?);
        let other_first = matches!((other_rank, our_rank), (Some(other), Some(our)) if other < our);
        result.extend(if other_first { others.next() } else { ours.next() });
    }
    result.extend(ours.chain(others));
    Ok(result)
}

/// Puts items into an order that [`order`] gave.
pub(super) fn arrange<'a>(mut items: Vec<Value<'a>>, order: &[usize]) -> Vec<Value<'a>> {
    if order.iter().copied().eq(0..items.len()) {
        return items;
    }
    order.iter().map(|at| std::mem::take(&mut items[*at])).collect()
}

fn sort(
    mut half: Vec<usize>,
    items: &[Id],
    marked: impl Fn(usize) -> bool,
    by: &Ranks,
) -> Result<Vec<usize>, Uncomparable> {
    let mut last = Vec::new();
    if half.iter().any(|at| marked(*at)) {
        (last, half) = half.into_iter().partition(|at| marked(*at));
    }
    let rank = |at: &usize| by.find(items[*at]);
    // Most halves are in order already.
    if !half.windows(2).all(|pair| matches!((rank(&pair[0]), rank(&pair[1])), (Ok(Some(a)), Ok(Some(b))) if a <= b)) {
        if half.iter().all(|at| matches!(rank(at), Ok(Some(_)))) {
            half.sort_by_key(|at| rank(at).ok().flatten());
        } else {
            half = like_go(half, rank)?;
        }
    }
    half.append(&mut last);
    Ok(half)
}

/// Sorts as Go does where some items have no rank: its comparison then says "less" both ways round, so that the result
/// depends on which pairs Go's `sort.SliceStable` happens to compare. Only a `$setElementOrder` that is empty gets here.
fn like_go(
    half: Vec<usize>,
    rank: impl Fn(&usize) -> Result<Option<usize>, Uncomparable>,
) -> Result<Vec<usize>, Uncomparable> {
    let uncomparable = Cell::new(None);
    let look = |at: &usize| {
        rank(at).unwrap_or_else(|error| {
            uncomparable.set(Some(error));
            None
        })
    };
    let less = |a: &usize, b: &usize| match look(a) {
        None => true,
        Some(a) => look(b).is_none_or(|b| a < b),
    };
    let mut sorter = Sorter { list: half, less };
    sorter.sort();
    match uncomparable.get() {
        Some(error) => Err(error),
        None => Ok(sorter.list),
    }
}

/// The comparisons and moves of Go's stable sort: insertion sort of blocks of 20, then SymMerge (Kim and Kutzner, "Stable
/// minimum storage merging by symmetric comparisons", 2004) of blocks twice as long each time.
struct Sorter<F> {
    list: Vec<usize>,
    less: F,
}

impl<F: Fn(&usize, &usize) -> bool> Sorter<F> {
    const BLOCK: usize = 20;

    fn sort(&mut self) {
        let length = self.list.len();
        for from in (0..length).step_by(Self::BLOCK) {
            self.insertion(from, length.min(from + Self::BLOCK));
        }
        let mut block = Self::BLOCK;
        while block < length {
            for from in (0..length - block).step_by(2 * block) {
                self.merge(from, from + block, length.min(from + 2 * block));
            }
            block *= 2;
        }
    }

    fn less(&self, a: usize, b: usize) -> bool {
        (self.less)(&self.list[a], &self.list[b])
    }

    fn insertion(&mut self, from: usize, to: usize) {
        for end in from + 1..to {
            let mut at = end;
            while at > from && self.less(at, at - 1) {
                self.list.swap(at, at - 1);
                at -= 1;
            }
        }
    }

    /// The first place in a range for which `right` says no, by halving.
    fn first_not(&self, mut from: usize, mut to: usize, right: impl Fn(&Self, usize) -> bool) -> usize {
        while from < to {
            let half = usize::midpoint(from, to);
            if right(self, half) {
                from = half + 1;
            } else {
                to = half;
            }
        }
        from
    }

    /// Merges two sorted neighbours, `from..middle` and `middle..to`, neither of them empty. The depth of recursion is
    /// the logarithm of the length.
    fn merge(&mut self, from: usize, middle: usize, to: usize) {
        if middle - from == 1 {
            let at = self.first_not(middle, to, |this, at| this.less(at, from));
            self.list[from..at].rotate_left(1);
            return;
        }
        if to - middle == 1 {
            let at = self.first_not(from, middle, |this, at| !this.less(middle, at));
            self.list[at..=middle].rotate_right(1);
            return;
        }
        let half = usize::midpoint(from, to);
        let mirror = half + middle;
        let (low, high) = if middle > half { (mirror - to, half) } else { (from, middle) };
        let start = self.first_not(low, high, |this, at| !this.less(mirror - 1 - at, at));
        let end = mirror - start;
        if start < middle && middle < end {
            self.list[start..end].rotate_left(middle - start);
        }
        if from < start && start < half {
            self.merge(from, start, half);
        }
        if half < end && end < to {
            self.merge(half, end, to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(text: &str) -> Vec<Id> {
        text.bytes().map(|b| Id::Scalar(usize::from(b - b'a'))).collect()
    }

    fn ranks(text: &str) -> Ranks {
        Ranks::of(ids(text), 26)
    }

    fn ordered(items: &str, named: &str, live: &str) -> String {
        let order = order(&ids(items), |_| false, &ranks(named), &ranks(live)).unwrap();
        order.into_iter().map(|at| char::from(items.as_bytes()[at])).collect()
    }

    #[test]
    fn new_items_come_first_unless_a_named_one_stands_before_them() {
        assert_eq!(ordered("abn", "n", "ab"), "nab");
        assert_eq!(ordered("abn", "bn", "ab"), "abn");
        assert_eq!(ordered("abcn", "an", "abc"), "anbc");
        assert_eq!(ordered("abc", "ca", "abc"), "bca");
        assert_eq!(ordered("abcden", "dnb", "abcde"), "acdnbe");
        assert_eq!(ordered("abc", "b", "abc"), "abc");
    }

    #[test]
    fn items_that_are_to_be_deleted_go_to_the_end_of_their_half() {
        let order = order(&ids("abc"), |at| at == 0, &ranks("c"), &ranks("abc")).unwrap();
        assert_eq!(order, [1, 0, 2]);
    }

    #[test]
    fn items_without_rank_are_sorted_as_go_does() {
        assert_eq!(ordered("nab", "", "ab"), "abn");
        assert_eq!(ordered("abc", "", ""), "cba");
    }

    #[test]
    fn gos_sort_is_a_stable_sort_where_all_have_a_rank() {
        let list: Vec<usize> = (0..1000).map(|i| i * 7919 % 1009 / 3).collect();
        let places: Vec<usize> = (0..list.len()).collect();
        let sorted = like_go(places.clone(), |at| Ok(Some(list[*at]))).unwrap();
        let mut expected = places;
        expected.sort_by_key(|at| list[*at]);
        assert_eq!(sorted, expected);
    }
}
