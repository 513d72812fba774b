use std::{borrow::Cow, collections::HashMap, fmt};

use crate::{
    presets::Role,
    schema::{Form, POD, Type, TypeId, nearest},
    value::{Path, Segment, Value, glob_matches},
};

/// A path that may mean many places: `containers[*].env`, `containers[@sidecar].image`, `volumes[cache-*].emptyDir`.
///
/// It starts at the pod's spec and is checked against the field tree when it is read, so that a rule with a typing error
/// is refused and doesn't forbid or allow in silence.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pattern {
    text: String,
    steps: Vec<Step>,
    /// For each step the merge key of the list whose items it means.
    keys: Vec<Option<&'static str>>,
    /// The type of what it means.
    ty: TypeId,
}

/// One step of a [`Pattern`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Step {
    /// A field of an object, or a key of a map.
    Field(String),
    /// Items of a list that has a merge key, or keys of a map.
    Items(Items),
}

/// Which items.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Items {
    /// `[+]`: containers that the layer adds. Only the built-in list says this.
    Added,
    /// `[*]`: all; of containers and volumes all that aren't the CI system's.
    Every,
    /// `[cache-*]`: those whose key fits; of containers and volumes none that is the CI system's.
    Glob(String),
    /// `[cache]` or `[name=cache]`: the one with this key, whosever it is.
    Name(String),
    /// `[@agent]`: containers that play a role.
    Role(Role),
    /// `[@system]`: the containers of the CI system, and those that other injectors put into the pod.
    System,
}

/// Says which items of a pod's lists are meant.
pub trait Membership {
    /// Whether the item with this key is meant. `list` is the field that the list stands in.
    fn is_member(&self, list: &str, items: &Items, key: &str) -> bool;
}

/// How `@system` is written.
const SYSTEM: &str = "system";

impl Pattern {
    /// Reads a path; `spec.` in front changes nothing.
    ///
    /// # Errors
    /// What is wrong with it, with the nearest name for a field that there isn't.
    pub fn parse(text: &str) -> Result<Self, String> {
        let written = text.trim();
        let rest = written.strip_prefix("spec.").unwrap_or(written);
        if rest.is_empty() || rest == "spec" {
            return Err(format!("path {text:?}: write the fields of the spec, such as containers[*].env"));
        }
        let fail = |what: String| format!("path {text:?}: {what}");
        let tokens = tokens(rest).map_err(|what| fail(what.to_owned()))?;
        let mut reader = Reader { ty: POD.pod_spec(), list: None, shown: String::from("the pod spec") };
        let (mut steps, mut keys) = (Vec::with_capacity(tokens.len()), Vec::with_capacity(tokens.len()));
        let last = tokens.len() - 1;
        for (at, token) in tokens.into_iter().enumerate() {
            let key = reader.list.as_ref().and_then(|(_, key)| *key);
            if let Some(step) = reader.step(token, at == last).map_err(&fail)? {
                keys.push(key.filter(|_| matches!(step, Step::Items(_))));
                steps.push(step);
            }
        }
        Ok(Self { text: rest.to_owned(), steps, keys, ty: reader.ty })
    }

    /// As it is written, from the spec.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The steps from the spec in.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Whether what it means is an amount: a quantity or a whole number.
    pub fn is_amount(&self) -> bool {
        match POD.target(self.ty).1 {
            Type::Int(_) => true,
            Type::Struct(of) => matches!(of.form, Form::Quantity),
            _ => false,
        }
    }

    /// Whether what it means is a whole number.
    pub fn is_whole(&self) -> bool {
        matches!(POD.target(self.ty).1, Type::Int(_))
    }

    /// Whether it names its containers itself: by name or role, and not by a star.
    pub fn is_deliberate(&self) -> bool {
        matches!(self.steps.get(1), Some(Step::Items(Items::Name(_) | Items::Role(_) | Items::System)))
    }

    /// Whether a path of the pod (`spec.…`) is this place or stands below it.
    pub fn covers(&self, path: &Path, who: &impl Membership) -> bool {
        let [Segment::Field(root), rest @ ..] = path.segments() else { return false };
        if root != "spec" || rest.len() < self.steps.len() {
            return false;
        }
        // Fields first: that is cheap, and most differ there.
        let same_fields = self.steps.iter().zip(rest).all(|(step, segment)| match (step, segment) {
            (Step::Field(wanted), Segment::Field(name)) => wanted == name,
            (Step::Items(_), Segment::Item { .. } | Segment::Field(_)) => true,
            _ => false,
        });
        same_fields && {
            let mut list = "";
            self.steps.iter().zip(rest).all(|(step, segment)| match (step, segment) {
                (Step::Items(items), Segment::Item { value: key, .. } | Segment::Field(key)) => {
                    who.is_member(list, items, key)
                }
                (_, Segment::Field(name)) => {
                    list = name;
                    true
                }
                _ => false,
            })
        }
    }

    /// Whether there is a place that both mean, or that stands below one and is the other.
    pub fn meets(&self, other: &Self) -> bool {
        self.steps.iter().zip(&other.steps).all(|pair| match pair {
            (Step::Field(a), Step::Field(b)) => a == b,
            (Step::Items(Items::Name(a)), Step::Items(Items::Name(b))) => a == b,
            (Step::Field(key), Step::Items(items)) | (Step::Items(items), Step::Field(key)) => items.may_be(key),
            (Step::Items(_), Step::Items(_)) => true,
        })
    }

    /// All places in a spec that it means, with what stands there.
    pub fn find<'v, 'a>(&self, spec: &'v Value<'a>, who: &impl Membership) -> Vec<(Path, &'v Value<'a>)> {
        let mut found = Vec::new();
        self.visit(0, spec, "", &mut Vec::with_capacity(self.steps.len()), who, &mut found);
        found
    }

    /// Looks below a value that the first steps led to. Paths are made for what is found only, which is mostly nothing.
    fn visit<'v, 'a>(
        &self,
        at: usize,
        value: &'v Value<'a>,
        list: &str,
        way: &mut Vec<Part<'v>>,
        who: &impl Membership,
        out: &mut Vec<(Path, &'v Value<'a>)>,
    ) {
        let Some(step) = self.steps.get(at) else {
            let mut path = Path::field("spec");
            way.iter().for_each(|part| path.push(part.segment()));
            out.push((path, value));
            return;
        };
        match (step, value, self.keys[at]) {
            (Step::Field(name), Value::Object(map), _) => {
                if let Some((name, inner)) = map.position(name).and_then(|place| map.iter().nth(place))
                    && !inner.is_null()
                {
                    way.push(Part::Field(name));
                    self.visit(at + 1, inner, name, way, who, out);
                    way.pop();
                }
            }
            (Step::Items(items), Value::List(values), Some(key)) => {
                for item in values {
                    let Some(name) = item.get(key).and_then(Value::scalar_text) else { continue };
                    if who.is_member(list, items, &name) {
                        way.push(Part::Item(key, name));
                        self.visit(at + 1, item, "", way, who, out);
                        way.pop();
                    }
                }
            }
            (Step::Items(items), Value::Object(map), _) => {
                for (name, inner) in map.iter().filter(|(_, inner)| !inner.is_null()) {
                    if who.is_member(list, items, name) {
                        way.push(Part::Field(name));
                        self.visit(at + 1, inner, name, way, who, out);
                        way.pop();
                    }
                }
            }
            _ => {}
        }
    }
}

/// A step on the way to what a pattern finds.
enum Part<'v> {
    Field(&'v str),
    Item(&'static str, Cow<'v, str>),
}

impl Part<'_> {
    fn segment(&self) -> Segment {
        match self {
            Self::Field(name) => Segment::Field((*name).to_owned()),
            Self::Item(key, name) => Segment::Item { key: (*key).to_owned(), value: name.clone().into_owned() },
        }
    }
}

/// Patterns in an order that finds those for a path quickly: by the field below an item, which is where they differ.
#[derive(Debug)]
pub struct Index {
    by_third: HashMap<String, Vec<usize>>,
    others: Vec<usize>,
}

impl Index {
    /// An index of these patterns.
    pub fn of<'p>(patterns: impl IntoIterator<Item = &'p Pattern>) -> Self {
        let mut index = Self { by_third: HashMap::new(), others: Vec::new() };
        for (at, pattern) in patterns.into_iter().enumerate() {
            match pattern.steps.get(2) {
                Some(Step::Field(name)) => index.by_third.entry(name.clone()).or_default().push(at),
                _ => index.others.push(at),
            }
        }
        index
    }

    /// The places, in the list that was given, of patterns that may cover a path of the pod.
    pub fn candidates<'i>(&'i self, path: &Path) -> impl Iterator<Item = usize> + 'i {
        let third = match path.segments().get(3) {
            Some(Segment::Field(name)) => self.by_third.get(name),
            _ => None,
        };
        third.into_iter().flatten().chain(&self.others).copied()
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Items {
    /// Whether an item with this key is meant, in a list where nothing is the CI system's.
    pub fn may_be(&self, key: &str) -> bool {
        match self {
            Self::Added | Self::Every | Self::Role(_) | Self::System => true,
            Self::Glob(glob) => glob_matches(glob, key),
            Self::Name(name) => name == key,
        }
    }
}

enum Token {
    Word(String),
    Bracket(String),
}

fn tokens(text: &str) -> Result<Vec<Token>, &'static str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let end = inner.find(']').ok_or("a bracket is not closed")?;
            let content = inner[..end].trim();
            let content = content.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(content);
            if content.is_empty() {
                return Err("write a name or * between the brackets");
            }
            tokens.push(Token::Bracket(content.to_owned()));
            rest = &inner[end + 1..];
            continue;
        }
        let word = match rest.strip_prefix('.') {
            Some(_) if tokens.is_empty() => return Err("it can't start with a dot"),
            Some(word) => word,
            None if tokens.is_empty() => rest,
            None => return Err("a dot or a bracket is wanted behind a bracket"),
        };
        let end = word.find(['.', '[']).unwrap_or(word.len());
        if end == 0 {
            return Err("a field name is wanted between the dots");
        }
        tokens.push(Token::Word(word[..end].to_owned()));
        rest = &word[end..];
    }
    Ok(tokens)
}

/// Where the reading of a path is in the field tree.
struct Reader {
    ty: TypeId,
    /// The list that the last step named, with its merge key.
    list: Option<(String, Option<&'static str>)>,
    shown: String,
}

impl Reader {
    fn step(&mut self, token: Token, is_last: bool) -> Result<Option<Step>, String> {
        match token {
            Token::Word(name) => self.field(name).map(Some),
            Token::Bracket(content) => self.items(content, is_last),
        }
    }

    fn field(&mut self, name: String) -> Result<Step, String> {
        match POD.target(self.ty).1 {
            Type::Struct(fields) if matches!(fields.form, Form::Object) => {
                let Some(field) = fields.field(&name) else {
                    let hint = match nearest(&name, fields.names()) {
                        Some(near) => format!(", did you mean {near:?}?"),
                        None => String::new(),
                    };
                    return Err(format!("unknown field {name:?} in {}{hint}", self.shown));
                };
                self.ty = field.ty;
                let is_list = matches!(POD.target(field.ty).1, Type::Slice(_));
                self.list = is_list.then(|| (name.clone(), field.list_key()));
            }
            Type::Map(values) => {
                self.ty = *values;
                self.list = None;
            }
            Type::Slice(_) => return Err(format!("{} is a list, write {0}[*].{name}", self.shown)),
            _ => return Err(format!("{} has no fields, so no {name:?}", self.shown)),
        }
        self.shown = name.clone();
        Ok(Step::Field(name))
    }

    fn items(&mut self, content: String, is_last: bool) -> Result<Option<Step>, String> {
        let (list, key) = match (POD.target(self.ty).1, self.list.take()) {
            (Type::Slice(item), Some((list, Some(key)))) => {
                self.ty = *item;
                (list, key)
            }
            // Such a list changes as a whole.
            (Type::Slice(_), _) if is_last && content == "*" => return Ok(None),
            (Type::Slice(_), _) => return Err(format!("{0} changes as a whole, write {0}", self.shown)),
            (Type::Map(values), _) => {
                self.ty = *values;
                (String::new(), "")
            }
            _ => return Err(format!("{} is no list", self.shown)),
        };
        self.shown = format!("{}[{content}]", self.shown);
        let of_containers = list == "containers" || list == "initContainers";
        if let Some(role) = content.strip_prefix('@') {
            if !of_containers {
                return Err(format!("{content} is a role, which only containers and initContainers have"));
            }
            return Ok(Some(Step::Items(role_of(role)?)));
        }
        if content == "+" && of_containers {
            return Ok(Some(Step::Items(Items::Added)));
        }
        let name = match content.split_once('=') {
            Some((given, name)) if given == key => name.to_owned(),
            Some((given, _)) if !key.is_empty() && given.chars().all(|c| c.is_ascii_alphanumeric()) && given != key => {
                return Err(format!("the items of {list} are told apart by {key}, not by {given}"));
            }
            _ => content,
        };
        Ok(Some(Step::Items(match name.as_str() {
            "*" => Items::Every,
            glob if glob.contains('*') => Items::Glob(glob.to_owned()),
            _ => Items::Name(name),
        })))
    }
}

fn role_of(name: &str) -> Result<Items, String> {
    if name == SYSTEM {
        return Ok(Items::System);
    }
    let known = || Role::ALL.into_iter().map(Role::as_str).chain([SYSTEM]);
    Role::parse(name).map(Items::Role).ok_or_else(|| match nearest(name, known()) {
        Some(near) => format!("unknown role \"@{name}\", did you mean \"@{near}\"?"),
        None => {
            let all: Vec<String> = known().map(|role| format!("@{role}")).collect();
            format!("unknown role \"@{name}\", the roles are {}", all.join(", "))
        }
    })
}
