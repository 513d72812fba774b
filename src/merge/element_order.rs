use std::mem;

use super::{
    Error, ErrorKind, Merge, Side, Uncomparable,
    directives::{self, SET_ELEMENT_ORDER},
    fields::{ListRule, Schema},
    keys::{Id, Keys, Ranks},
    list::{self, Merged},
    order, scalars,
};
use crate::value::{Kind, Map, Segment, Value};

impl Merge<'_> {
    /// Obeys one `$setElementOrder/F`: merges the patch's list `F`, which it takes out of the patch, and orders the
    /// result.
    pub(super) fn set_element_order<'a>(
        &self,
        target: &mut Map<'a>,
        patch: &mut Map<'a>,
        name: &str,
        order: Value<'a>,
        ty: Schema,
    ) -> Result<(), Error> {
        let field = directives::listed_field(name, SET_ELEMENT_ORDER)?;
        let fault = |kind| Error::new(kind).in_field(name);
        let Value::List(order) = order else {
            return Err(fault(ErrorKind::Order { found: order.kind() }));
        };
        let list = |side, value: Option<&mut Value<'a>>| match value {
            None => Ok(None),
            Some(Value::List(items)) => Ok(Some(mem::take(items))),
            Some(other) => {
                let kind = ErrorKind::Ordered { side, field: field.to_owned(), found: other.kind() };
                Err(Error::new(kind).in_field(field))
            }
        };
        let live = list(Side::Pod, target.get_mut(field))?;
        let new = list(Side::Patch, patch.remove(field).as_mut())?;
        let rule = self.list_field(ty, field)?;
        if live.is_none() && new.is_none() {
            return Ok(());
        }
        let ordered = Ordered { name, field, order, rule };
        ordered.check(new.as_deref().unwrap_or_default())?;
        let items = self.ordered(live, new, &ordered)?;
        match target.get_mut(field) {
            Some(list) => *list = Value::List(items),
            None => _ = target.insert(field.to_owned(), Value::List(items)),
        }
        Ok(())
    }

    fn ordered<'a>(
        &self,
        live: Option<Vec<Value<'a>>>,
        new: Option<Vec<Value<'a>>>,
        ordered: &Ordered<'_, 'a>,
    ) -> Result<Vec<Value<'a>>, Error> {
        let Ordered { field, rule, .. } = *ordered;
        let in_field = |error: Error| error.in_field(field);
        let (had_live, live) = (live.is_some(), live.unwrap_or_default());
        let (had_new, mut new) = (new.is_some(), new.unwrap_or_default());
        let kind = list::item_kind(&live, &new).map_err(in_field)?;
        let Some(kind) = kind else {
            return Err(ordered.fault(ErrorKind::OrderOfNothing { field: field.to_owned() }));
        };
        if !had_live {
            new.retain_mut(|item| directives::strip(item, true));
        }
        let keys = Keys::read(&live, &new, &ordered.order, rule.key);
        ordered.check_keys(kind, &live, &new, &keys)?;

        let seen: Vec<Id> = keys.live.iter().copied().flatten().collect();
        let Merged { items, ids, live: seen } = match rule.key {
            _ if !had_new => Merged { items: live, ids: seen.clone(), live: seen },
            _ if !had_live || !rule.merge => {
                let missing = || keys.patch.iter().position(Option::is_none).zip(rule.key);
                if let Some((at, key)) = missing() {
                    return Err(in_field(list::key_missing(Side::Patch, key, at)));
                }
                Merged { items: new, ids: keys.patch.iter().copied().flatten().collect(), live: seen }
            }
            Some(key) => self.keyed(live, new, &keys, rule.item, key).map_err(in_field)?,
            None => scalars::merge(live, new, &keys).map_err(|error| in_field(error.of_key("items")))?,
        };
        let named = Ranks::of(keys.order.iter().copied().flatten(), keys.distinct);
        let live = Ranks::of(seen, keys.distinct);
        let order = order::order(&ids, |at| list::is_marked(&items[at]), &named, &live)
            .map_err(|error| in_field(error.of_key(rule.key.unwrap_or("items"))))?;
        Ok(order::arrange(items, &order))
    }
}

/// A `$setElementOrder/F`.
struct Ordered<'d, 'a> {
    /// The whole directive.
    name: &'d str,
    /// The list's name.
    field: &'d str,
    /// What it says.
    order: Vec<Value<'a>>,
    /// How the list is merged.
    rule: ListRule<'d>,
}

impl Ordered<'_, '_> {
    fn fault(&self, kind: ErrorKind) -> Error {
        Error::new(kind).in_field(self.name)
    }

    /// The patch's items must be in the order, one after another. Those to delete don't count; what has another `$patch`
    /// is passed over, but not behind the end of the order.
    fn check(&self, patch: &[Value<'_>]) -> Result<(), Error> {
        if self.order.is_empty() {
            return Ok(());
        }
        let mut rest = self.order.iter();
        for item in patch.iter().filter(|item| self.rule.key.is_none() || !list::is_marked(item)) {
            if rest.len() > 0 && item.get(directives::PATCH).is_some() {
                continue;
            }
            loop {
                let Some(next) = rest.next() else {
                    return Err(self.fault(ErrorKind::OrderMismatch { field: self.field.to_owned() }));
                };
                let pair = match self.rule.key {
                    Some(key) => item.get(key).zip(next.get(key)),
                    None => Some((item, next)),
                };
                // What lacks the key is found out later.
                let Some((item, next)) = pair else { return Ok(()) };
                if same(item, next).map_err(|error| self.uncomparable(error))? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// All keys that ordering needs are there, and can be compared.
    fn check_keys(&self, kind: Kind, live: &[Value<'_>], new: &[Value<'_>], keys: &Keys) -> Result<(), Error> {
        let field = || self.field.to_owned();
        let Some(key) = self.rule.key else {
            let uncomparable = |id: &Option<Id>| matches!(id, Some(Id::List | Id::Object));
            let objects = kind == Kind::Object && !(new.is_empty() && live.is_empty() && self.order.is_empty());
            return if objects || keys.order.iter().any(uncomparable) {
                Err(self.fault(ErrorKind::OrderOfObjects { field: field() }))
            } else {
                Ok(())
            };
        };
        if kind != Kind::Object {
            let error = Error::new(ErrorKind::ItemType { key: key.to_owned(), found: kind });
            return Err(error.in_field(self.field));
        }
        if let Some(at) = keys.order.iter().position(Option::is_none) {
            let error = Error::new(ErrorKind::OrderItem { field: field(), key: key.to_owned() });
            return Err(error.within(Segment::Index(at)).in_field(self.name));
        }
        match keys.live.iter().position(Option::is_none) {
            Some(at) => Err(list::key_missing(Side::Pod, key, at).in_field(self.field)),
            None => Ok(()),
        }
    }

    fn uncomparable(&self, error: Uncomparable) -> Error {
        match self.rule.key {
            Some(key) => error.of_key(key).in_field(self.name),
            None => self.fault(ErrorKind::OrderOfObjects { field: self.field.to_owned() }),
        }
    }
}

/// Go's `==`, which panics for two lists and two objects.
fn same(a: &Value<'_>, b: &Value<'_>) -> Result<bool, Uncomparable> {
    match (a.kind(), b.kind()) {
        (kind @ (Kind::List | Kind::Object), other) if kind == other => Err(Uncomparable(kind)),
        _ => Ok(a == b),
    }
}
