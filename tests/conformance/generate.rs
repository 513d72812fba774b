//! Pairs of a pod and a patch that are good at finding differences between two engines of strategic merge.
//!
//! They follow the type graph, draw names from a small vocabulary so that things meet, and hold directives, nulls,
//! duplicates, reordered lists and wrong types; the patch is made from the pod. The same seed gives the same pairs.
//!
//! Left out is what Go leaves to chance: `F` beside `$deleteFromPrimitiveList/F` without `$setElementOrder/F`, and what it
//! leaves to its version: a pod's list of scalars that merges, is long and has duplicates.

use std::collections::{BTreeMap, BTreeSet};

use podlayer::{
    schema::{Field, Form, POD, Struct, Type, TypeId},
    value::{Map, Value, to_json},
};

/// Two documents to merge.
pub(crate) struct Pair {
    /// `pod` or `podspec`: what both documents are.
    pub(crate) root: &'static str,
    /// What the patch is for.
    pub(crate) original: Value<'static>,
    /// The patch.
    pub(crate) patch: Value<'static>,
}

impl Pair {
    /// The question as a line of JSON, without its end.
    pub(crate) fn line(&self) -> String {
        let (original, patch) = (to_json(&self.original), to_json(&self.patch));
        format!(r#"{{"root":"{}","original":{original},"patch":{patch}}}"#, self.root)
    }
}

/// An endless source of pairs.
pub(crate) struct Generator {
    random: Random,
    /// Fields of each struct in a fixed order, since the graph has none.
    fields: BTreeMap<&'static str, Vec<&'static str>>,
    mood: Mood,
}

/// How one pair is made, so that not every one of them has everything in it and fails.
#[derive(Clone, Copy)]
struct Mood {
    /// Of 1,000 chances, how many are taken to put a directive or null.
    directives: u32,
    /// Likewise to put what is wrong.
    faults: u32,
    /// How many items lists may have.
    items: usize,
    /// How many names there are.
    names: usize,
}

impl Iterator for Generator {
    type Item = Pair;

    fn next(&mut self) -> Option<Pair> {
        self.mood = match self.random.below(16) {
            0..4 => Mood { directives: 0, faults: 0, items: 4, names: 5 },
            4..10 => Mood { directives: 120, faults: 0, items: 4, names: 5 },
            10..14 => Mood { directives: 200, faults: 15, items: 4, names: 4 },
            14 => Mood { directives: 60, faults: 0, items: 60, names: 80 },
            _ => Mood { directives: 250, faults: 100, items: 3, names: 3 },
        };
        let (root, ty) = if self.random.below(4) == 0 { ("pod", POD.pod()) } else { ("podspec", POD.pod_spec()) };
        let original = self.value(ty, 0);
        let patch = self.patch(ty, Some(&original), 0);
        Some(Pair { root, original, patch })
    }
}

impl Generator {
    /// The pairs of this seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            random: Random(seed),
            fields: BTreeMap::new(),
            mood: Mood { directives: 0, faults: 0, items: 0, names: 1 },
        }
    }

    /// Deeper than this are only scalars and empty things.
    const DEPTH: usize = 8;

    fn directive(&mut self) -> bool {
        self.random.below(1000) < self.mood.directives
    }

    fn fault(&mut self) -> bool {
        self.random.below(1000) < self.mood.faults
    }

    // === What both documents have ===

    fn value(&mut self, ty: TypeId, depth: usize) -> Value<'static> {
        if self.fault() {
            return self.anything(depth);
        }
        match POD.target(ty).1 {
            Type::Struct(of) if of.form == Form::Object => {
                let mut map = Map::new();
                for name in self.some_fields(of, depth) {
                    let field = of.field(name).unwrap();
                    let value = self.field(field, depth + 1);
                    let name = if self.fault() { name.to_ascii_uppercase() } else { name.to_owned() };
                    map.insert(name, value);
                }
                if self.fault() {
                    let value = self.anything(depth);
                    map.insert(self.random.pick(&["unknown", "$patch", "$retainKeys", "$setElementOrder/env"]), value);
                }
                Value::Object(map)
            }
            Type::Map(item) => {
                let mut map = Map::new();
                for _ in 0..self.random.below(4) {
                    let value = self.value(*item, depth + 1);
                    map.insert(self.name(), value);
                }
                Value::Object(map)
            }
            Type::Slice(item) => {
                let length = self.length(depth);
                Value::List((0..length).map(|_| self.value(*item, depth + 1)).collect())
            }
            scalar => self.scalar(scalar),
        }
    }

    /// A field's value, its items with keys where it merges by key.
    fn field(&mut self, field: &Field, depth: usize) -> Value<'static> {
        if self.fault() && self.random.below(3) == 0 {
            return Value::Null;
        }
        let mut value = self.value(field.ty, depth);
        if let (None, true, Value::List(items)) = (&field.key, field.merge && self.mood.items > 10, &mut value) {
            let mut met = BTreeSet::new();
            items.retain(|item| met.insert(to_json(item)));
        }
        if let (Some(key), Value::List(items)) = (&field.key, &mut value) {
            let mut met = BTreeSet::new();
            let odd = self.random.below(8) == 0;
            items.retain_mut(|item| {
                let name = self.key(key);
                let is_new = met.insert(to_json(&name));
                if let Value::Object(item) = item
                    && !self.fault()
                {
                    item.insert(key.to_string(), name);
                }
                is_new || odd
            });
        }
        value
    }

    fn some_fields(&mut self, of: &'static Struct, depth: usize) -> Vec<&'static str> {
        let all = self.fields.entry(&of.name).or_insert_with(|| {
            let mut names: Vec<_> = of.names().collect();
            names.sort_unstable();
            names
        });
        if all.is_empty() || depth > Self::DEPTH {
            return Vec::new();
        }
        let merged: Vec<_> =
            all.iter().copied().filter(|name| of.field(name).is_some_and(|field| field.merge)).collect();
        let most = if self.mood.items > 10 && depth > 1 { 2 } else { 5 };
        let mut some: Vec<_> = (0..self.random.below(most)).map(|_| self.random.pick(all)).collect();
        // The lists that merge are what is hard.
        if !merged.is_empty() && self.random.below(3) > 0 {
            some.push(self.random.pick(&merged));
        }
        if depth == 0 && of.name.as_ref() == "Pod" {
            some.extend(["metadata", "spec"]);
        }
        some
    }

    fn length(&mut self, depth: usize) -> usize {
        let most = if depth > 3 { self.mood.items.min(3) } else { self.mood.items };
        self.random.below(most as u32 + 1) as usize
    }

    fn name(&mut self) -> String {
        let at = self.random.below(self.mood.names as u32);
        if at < 5 { ["a", "b", "c", "d", "e"][at as usize].to_owned() } else { format!("n{at}") }
    }

    fn key(&mut self, key: &str) -> Value<'static> {
        match self.random.below(200) {
            _ if self.fault() => self.anything(Self::DEPTH),
            _ if key != "containerPort" => self.name().into(),
            0 => Value::Float(1.0),
            1 => "1".into(),
            _ => Value::Int(self.random.below(self.mood.names as u32).into()),
        }
    }

    fn scalar(&mut self, ty: &Type) -> Value<'static> {
        match ty {
            Type::Bool => Value::Bool(self.random.below(2) == 0),
            Type::Int(_) => Value::Int(self.random.below(5).into()),
            Type::Struct(of) if of.form == Form::IntOrString && self.random.below(2) == 0 => Value::Int(1),
            Type::Struct(of) if of.form == Form::Anything => {
                Value::Object([("f:a", Value::Object(Map::new()))].into_iter().collect())
            }
            _ => self.name().into(),
        }
    }

    fn anything(&mut self, depth: usize) -> Value<'static> {
        let nested = depth < Self::DEPTH;
        match self.random.below(9) {
            0 => Value::Null,
            1 => Value::Bool(true),
            2 => Value::Int(self.random.below(3).into()),
            3 => Value::Float(f64::from(self.random.below(4)) / 2.0),
            4 => Value::List(Vec::new()),
            5 => Value::Object(Map::new()),
            6 if nested => Value::List((0..self.random.below(3)).map(|_| self.anything(depth + 3)).collect()),
            7 if nested => {
                let key = self.random.pick(&["name", "a", "b", "$patch", "unknown"]);
                let value = self.anything(depth + 3);
                Value::Object([(key, value)].into_iter().collect())
            }
            _ => self.name().into(),
        }
    }

    // === The patch ===

    fn patch(&mut self, ty: TypeId, old: Option<&Value<'static>>, depth: usize) -> Value<'static> {
        match (POD.target(ty).1, old) {
            (Type::Struct(of), _) if of.form == Form::Object => {
                let old = old.and_then(Value::as_object);
                let mut names = self.some_fields(of, depth);
                names.extend(old.iter().flat_map(|old| old.keys()).filter_map(|key| {
                    let known = self.fields.get(of.name.as_ref())?.iter().find(|name| **name == key).copied();
                    known.filter(|_| self.random.below(2) == 0)
                }));
                let mut map = Map::new();
                for name in names {
                    if !map.keys().any(|key| key.rsplit('/').next() == Some(name)) {
                        let old = old.and_then(|old| old.get(name));
                        self.patch_field(&mut map, name, of.field(name).unwrap(), old, depth + 1);
                    }
                }
                self.object_directives(&mut map, depth);
                Value::Object(map)
            }
            (Type::Map(item), _) => {
                let mut map = Map::new();
                for _ in 0..self.random.below(4) {
                    let value = if self.directive() { Value::Null } else { self.value(*item, depth + 1) };
                    map.insert(self.name(), value);
                }
                self.object_directives(&mut map, depth);
                Value::Object(map)
            }
            (Type::Slice(item), _) => {
                let length = self.length(depth);
                Value::List((0..length).map(|_| self.patch(*item, None, depth + 1)).collect())
            }
            _ => self.value(ty, depth),
        }
    }

    fn patch_field(
        &mut self,
        map: &mut Map<'static>,
        name: &str,
        field: &Field,
        old: Option<&Value<'static>>,
        depth: usize,
    ) {
        let value = match () {
            () if self.directive() => Value::Null,
            () if self.fault() => self.anything(depth),
            () => match (&field.key, POD.ty(field.ty)) {
                (Some(key), Type::Slice(item)) => self.patch_list(key, *item, old, depth),
                _ => self.patch(field.ty, old, depth),
            },
        };
        let is_list = matches!(POD.ty(field.ty), Type::Slice(_)) || self.fault();
        let ordered = is_list && self.directive();
        if ordered {
            let order = self.order(field, old, &value);
            map.insert(format!("$setElementOrder/{name}"), order);
        }
        let deletes = is_list && self.directive() && (field.key.is_none() || self.fault());
        if deletes {
            let value = if self.fault() { self.anything(depth) } else { self.patch(field.ty, None, depth) };
            map.insert(format!("$deleteFromPrimitiveList/{name}"), value);
        }
        let both = ordered && self.random.below(3) > 0 && (!value.is_null() || self.fault());
        if both || !(ordered || deletes) {
            map.insert(name.to_owned(), value);
        }
    }

    /// A list that merges by key: some of the pod's items, in any order, and others.
    fn patch_list(&mut self, key: &str, item: TypeId, old: Option<&Value<'static>>, depth: usize) -> Value<'static> {
        let old = old.and_then(Value::as_list).unwrap_or_default();
        let mut items = Vec::new();
        for _ in 0..self.length(depth) {
            let known =
                if old.is_empty() || self.random.below(3) == 0 { None } else { Some(self.random.pick_ref(old)) };
            let mut value = self.patch(item, known, depth + 1);
            if let Value::Object(map) = &mut value {
                let name = known.and_then(|known| known.get(key)).cloned().unwrap_or_else(|| self.key(key));
                if !self.fault() {
                    map.remove(&format!("$deleteFromPrimitiveList/{key}"));
                    map.insert(key.to_owned(), name);
                }
                if self.directive() && self.random.below(2) == 0 {
                    let mut directive = self.random.pick(&["delete", "delete", "delete", "replace"]);
                    if self.fault() {
                        directive = "merge";
                    }
                    map.insert("$patch", directive.into());
                }
            }
            items.push(value);
        }
        if self.directive() && self.random.below(6) == 0 {
            items.push(Value::Object([("$patch", "replace".into())].into_iter().collect()));
        }
        if self.fault() {
            items.push(self.anything(depth));
        }
        Value::List(items)
    }

    /// What a `$setElementOrder` says: as kubectl would write it, or not.
    fn order(&mut self, field: &Field, old: Option<&Value<'static>>, new: &Value<'static>) -> Value<'static> {
        if self.fault() {
            return self.anything(0);
        }
        let key = field.key.as_deref();
        let name = |item: &Value<'static>| match key {
            Some(key) => {
                item.get(key).map(|name| Value::Object([(key.to_owned(), name.clone())].into_iter().collect()))
            }
            None => Some(item.clone()),
        };
        let names = |list: Option<&Value<'static>>| -> Vec<Value<'static>> {
            list.and_then(Value::as_list).into_iter().flatten().filter_map(name).collect()
        };
        // Those of the patch in its order, with some of the pod's in between, each once.
        let mut order = names(Some(new));
        for other in names(old) {
            if self.random.below(3) > 0 && !order.contains(&other) {
                let at = self.random.below(order.len() as u32 + 1) as usize;
                order.insert(at, other);
            }
        }
        let mut met = BTreeSet::new();
        order.retain(|item| met.insert(to_json(item)));
        match self.random.below(12) {
            0 => order.clear(),
            1 => order.reverse(),
            2 => order.truncate(1),
            _ => {}
        }
        Value::List(order)
    }

    fn object_directives(&mut self, map: &mut Map<'static>, depth: usize) {
        if self.directive() && self.random.below(2) == 0 {
            let mut names: Vec<Value<'static>> =
                map.keys().filter(|key| !key.starts_with('$')).map(|key| key.to_owned().into()).collect();
            names.extend((0..self.random.below(3)).map(|_| self.name().into()));
            if self.fault() {
                names.pop();
                names.push(self.anything(depth));
            }
            map.insert("$retainKeys", if self.fault() { self.anything(depth) } else { Value::List(names) });
        }
        if depth > 0 && self.directive() && self.random.below(5) == 0 {
            let directive =
                if self.fault() { self.anything(depth) } else { self.random.pick(&["delete", "replace"]).into() };
            map.insert("$patch", directive);
        }
        if self.fault() {
            let key = self.random.pick(&["unknown", "$setElementOrder", "$deleteFromPrimitiveList", "name", "$patch"]);
            let value = self.anything(depth);
            map.insert(key, value);
        }
    }
}

/// SplitMix64: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) % u64::from(end.max(1))) as u32
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        *self.pick_ref(from)
    }

    fn pick_ref<'t, T>(&mut self, from: &'t [T]) -> &'t T {
        &from[self.below(from.len() as u32) as usize]
    }
}
