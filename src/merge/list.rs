use super::{
    Error, ErrorKind, Merge, Side, Uncomparable,
    directives::{self, ItemDirective},
    fields::{ListRule, Schema},
    keys::{Id, Keys, Ranks},
    order, plain, scalars,
};
use crate::value::{Kind, Segment, Value};

/// A list after its merge, with what a `$setElementOrder` wants to know.
pub(super) struct Merged<'a> {
    pub(super) items: Vec<Value<'a>>,
    /// What names each item.
    pub(super) ids: Vec<Id>,
    /// What Go finds in the live list afterwards: as long as it was, but changed by the merge, which works in the same
    /// memory.
    pub(super) live: Vec<Id>,
}

impl Merge<'_> {
    /// Merges two lists of a field whose strategy is to merge.
    pub(super) fn lists<'a>(
        &self,
        live: Vec<Value<'a>>,
        patch: Vec<Value<'a>>,
        rule: ListRule<'_>,
    ) -> Result<Vec<Value<'a>>, Error> {
        let Some(kind) = item_kind(&live, &patch)? else {
            return Ok(live);
        };
        if let (Kind::Object, Some(key)) = (kind, rule.key)
            && let Some(places) = plain::places(&live, &patch, key)
        {
            return self.plain(live, patch, &places, rule.item, key);
        }
        let keys = Keys::read(&live, &patch, &[], rule.key);
        match (kind, rule.key) {
            (Kind::Object, Some(key)) => Ok(self.keyed(live, patch, &keys, rule.item, key)?.items),
            (Kind::Object, None) => Err(Error::new(ErrorKind::KeylessObjects)),
            (found, Some(key)) => Err(Error::new(ErrorKind::ItemType { key: key.to_owned(), found })),
            (_, None) => Ok(scalars::merge(live, patch, &keys).map_err(|error| error.of_key("items"))?.items),
        }
    }

    /// The list without the scalars that a `$deleteFromPrimitiveList` names. Objects are merged instead, as in Go.
    pub(super) fn without<'a>(
        &self,
        mut live: Vec<Value<'a>>,
        named: Vec<Value<'a>>,
        rule: ListRule<'_>,
    ) -> Result<Vec<Value<'a>>, Error> {
        match item_kind(&live, &named)? {
            None | Some(Kind::Object) => self.lists(live, named, rule),
            Some(_) => {
                let keys = Keys::read(&live, &named, &[], None);
                let named = Ranks::of(keys.patch.into_iter().flatten(), keys.distinct);
                let mut ids = keys.live.into_iter().flatten();
                live.retain(|_| ids.next().is_some_and(|id| named.find(id) == Ok(None)));
                Ok(live)
            }
        }
    }

    /// Merges two lists of objects by key.
    pub(super) fn keyed<'a>(
        &self,
        live: Vec<Value<'a>>,
        patch: Vec<Value<'a>>,
        keys: &Keys,
        ty: Schema,
        key: &str,
    ) -> Result<Merged<'a>, Error> {
        let (mut new, mut delete, mut replace) = (Vec::with_capacity(patch.len()), Vec::new(), false);
        for (at, item) in patch.into_iter().enumerate() {
            let directive = directives::item_directive(&item, key).map_err(|e| e.within(segment(&item, key, at)))?;
            let id = || keys.patch[at].ok_or_else(|| key_missing(Side::Patch, key, at));
            match directive {
                // Deletions come before all merges, wherever they stand.
                Some(ItemDirective::Delete) => delete.push(id()?),
                Some(ItemDirective::Replace) => replace = true,
                None => new.push(New { id: id()?, at, item }),
            }
        }
        let removal = Removal::of(&keys.live, &delete, keys.distinct).map_err(|error| error.of_key(key))?;
        if replace { replaced(new, removal, keys, key) } else { self.merged(live, new, removal, keys, ty, key) }
    }

    fn merged<'a>(
        &self,
        mut items: Vec<Value<'a>>,
        new: Vec<New<'a>>,
        removal: Removal,
        keys: &Keys,
        ty: Schema,
        key: &str,
    ) -> Result<Merged<'a>, Error> {
        if let Some(at) = keys.live.iter().position(Option::is_none) {
            return Err(key_missing(Side::Pod, key, at));
        }
        if !removal.gone.is_empty() {
            let mut gone = removal.gone.iter();
            items.retain(|_| gone.next() == Some(&false));
        }
        let had = items.len();
        let mut ids = removal.stay;
        let mut seen = [&ids[..], &removal.stale].concat();
        let named = Ranks::of(new.iter().map(|new| new.id), keys.distinct);
        let before = Ranks::of(ids.iter().copied(), keys.distinct);

        let mut added = vec![None; keys.distinct];
        for New { id, at, item } in new {
            let Id::Scalar(number) = id else {
                // Go looks for each key of the patch in the patch itself, and so would compare it with itself.
                let found = item.get(key).map_or(Kind::Object, Value::kind);
                return Err(Uncomparable(found).of_key(key).in_field(key).within(Segment::Index(at)));
            };
            let known = before.find(id).ok().flatten().or(added[number]);
            if let Some(known) = known {
                self.item(&mut items[known], item, known, ty, key)?;
                continue;
            }
            // In Go the first new items take the places that deleted ones left in the live list's memory.
            if let Some(stale) = seen.get_mut(items.len()) {
                *stale = id;
            }
            added[number] = Some(items.len());
            items.push(item);
            ids.push(id);
        }
        let order = order::order(&ids, |at| is_marked(&items[at]), &named, &before);
        let order = order.map_err(|error| error.of_key(key))?;
        if let Some(moved) = self.moved
            && !order.iter().filter(|at| **at < had).is_sorted()
        {
            moved.set(true);
        }
        let ids = order.iter().map(|at| ids[*at]).collect();
        Ok(Merged { items: order::arrange(items, &order), ids, live: seen })
    }

    /// Merges one item into its namesake, the one at `at`.
    pub(super) fn item<'a>(
        &self,
        target: &mut Value<'a>,
        item: Value<'a>,
        at: usize,
        ty: Schema,
        key: &str,
    ) -> Result<(), Error> {
        // INVARIANT: `item_kind` found objects only.
        let (Value::Object(old), Value::Object(new)) = (&mut *target, item) else {
            return Ok(());
        };
        let merged = self.objects(old, new, ty);
        let merged = merged.and_then(|()| match old.contains_key(key) {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::KeyRemoved { key: key.to_owned() }).in_field(key)),
        });
        merged.map_err(|error| error.within(segment(target, key, at)))
    }
}

/// The patch's items take the place of the list: nothing is merged, but equal keys gather where the first stands.
fn replaced<'a>(new: Vec<New<'a>>, removal: Removal, keys: &Keys, key: &str) -> Result<Merged<'a>, Error> {
    let (ids, items): (Vec<Id>, Vec<Value<'a>>) = new.into_iter().map(|new| (new.id, new.item)).unzip();
    let none = Ranks::of([], keys.distinct);
    let itself = Ranks::of(ids.iter().copied(), keys.distinct);
    let order = order::order(&ids, |_| false, &none, &itself).map_err(|error| error.of_key(key))?;
    let ids = order.iter().map(|at| ids[*at]).collect();
    Ok(Merged { items: order::arrange(items, &order), ids, live: [removal.stay, removal.stale].concat() })
}

/// An item of the patch that is no directive.
struct New<'a> {
    id: Id,
    /// Where it stands in the patch.
    at: usize,
    item: Value<'a>,
}

/// What the `$patch: delete` items of a patch do to the live list.
#[derive(Default)]
struct Removal {
    /// Which items go; empty if none does.
    gone: Vec<bool>,
    /// The keys of those that stay.
    stay: Vec<Id>,
    /// What Go leaves behind the end of the shortened list: each deletion moves what follows to the front, and so leaves
    /// a second copy of the item that was last at that moment.
    stale: Vec<Id>,
}

impl Removal {
    fn of(live: &[Option<Id>], delete: &[Id], distinct: usize) -> Result<Self, Uncomparable> {
        if delete.is_empty() {
            return Ok(Self { stay: live.iter().copied().flatten().collect(), ..Self::default() });
        }
        let comparable = Ranks::of(live.iter().copied().flatten(), distinct);
        // From each key to its first item, and from each item to the next of the same key.
        let (mut first, mut next) = (vec![None; distinct], vec![None; live.len()]);
        for (at, id) in live.iter().enumerate().rev() {
            if let Some(Id::Scalar(number)) = id {
                next[at] = first[*number].replace(at);
            }
        }
        let (mut gone, mut stale, mut last) = (vec![false; live.len()], Vec::new(), live.len());
        for id in delete {
            let Id::Scalar(number) = *id else {
                comparable.find(*id)?;
                continue;
            };
            while let Some(at) = first[number] {
                while gone[last - 1] {
                    last -= 1;
                }
                stale.extend(live[last - 1]);
                gone[at] = true;
                first[number] = next[at];
            }
        }
        stale.reverse();
        let stay = live.iter().zip(&gone).filter(|(_, gone)| !**gone).filter_map(|(id, _)| *id).collect();
        Ok(Self { gone, stay, stale })
    }
}

/// The one type of all items of two lists that are merged; `None` if there are no items.
///
/// # Errors
/// The types differ, or are null or lists.
pub(super) fn item_kind(live: &[Value<'_>], patch: &[Value<'_>]) -> Result<Option<Kind>, Error> {
    let mut first = None;
    for (side, list) in [(Side::Pod, live), (Side::Patch, patch)] {
        for (at, item) in list.iter().enumerate() {
            let found = item.kind();
            let first = *first.get_or_insert(found);
            let kind = match found {
                Kind::Null => ErrorKind::NullItem { side },
                Kind::List => ErrorKind::ListOfLists { side },
                _ if found != first => ErrorKind::MixedItems { side, first, found },
                _ => continue,
            };
            return Err(Error::new(kind).within(Segment::Index(at)));
        }
    }
    Ok(first)
}

/// Whether an item carries `$patch: delete`; after a merge only one that the pod brought along can.
pub(super) fn is_marked(item: &Value<'_>) -> bool {
    item.get(directives::PATCH).and_then(Value::as_str) == Some("delete")
}

/// How a path names an item: by key where it has one.
pub(super) fn segment(item: &Value<'_>, key: &str, at: usize) -> Segment {
    match item.get(key).and_then(Value::scalar_text) {
        Some(value) => Segment::Item { key: key.to_owned(), value: value.into_owned() },
        None => Segment::Index(at),
    }
}

pub(super) fn key_missing(side: Side, key: &str, at: usize) -> Error {
    Error::new(ErrorKind::KeyMissing { side, key: key.to_owned() }).within(Segment::Index(at))
}
