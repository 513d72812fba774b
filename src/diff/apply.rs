use super::{
    compare::{Known, compare},
    operation::{Op, Operation, Pointer},
};
use crate::value::Value;

/// Why an operation can't be applied.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("failed to {op} {path:?}: {fault}")]
pub struct ApplyError {
    /// What was to be done.
    pub op: Op,
    /// Where.
    pub path: String,
    /// What is wrong.
    pub fault: &'static str,
}

/// Why a patch isn't the difference that it should be: a bug, wherever it is.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum VerifyError {
    /// It doesn't apply.
    #[error("failed to apply the patch to the pod it is for")]
    Apply(#[source] ApplyError),
    /// It applies, but gives something else.
    #[error("the patch gives something else than it should at {path:?}")]
    Differs {
        /// The first place that differs.
        path: String,
    },
}

/// Applies operations to the value that stands at `pointer` in the document that they are for.
///
/// Stricter than RFC 6902 and than the API server where they allow what [`diff`](super::diff) never does: `replace`
/// needs a value to replace, an index is a plain number, and `-` is none.
///
/// # Errors
/// [`ApplyError`] for the first operation that doesn't apply; those before it are applied.
pub fn apply<'a>(target: &mut Value<'a>, operations: &[Operation<'a>], pointer: &str) -> Result<(), ApplyError> {
    let fail = |operation: &Operation<'_>, fault| ApplyError { op: operation.op, path: operation.path.clone(), fault };
    let mut rest = operations;
    while let Some(first) = rest.first() {
        let inside = first.path.strip_prefix(pointer).ok_or_else(|| fail(first, OUTSIDE))?;
        if inside.is_empty() {
            whole(target, first).map_err(|fault| fail(first, fault))?;
            rest = &rest[1..];
            continue;
        }
        let last = inside.bytes().rposition(|byte| byte == b'/').ok_or_else(|| fail(first, OUTSIDE))?;
        // What follows on each other mostly has one parent, which is looked for once.
        let parents = &first.path[..=pointer.len() + last];
        let parent = find(target, &inside[..last]).map_err(|fault| fail(first, fault))?;
        while let Some(operation) = rest.first() {
            let Some(step) = step(&operation.path, parents) else { break };
            one(parent, operation, step).map_err(|fault| fail(operation, fault))?;
            rest = &rest[1..];
        }
    }
    Ok(())
}

/// Proves that operations turn `before` into `after`, both at `pointer`: applies them to a copy and compares the whole.
///
/// # Errors
/// [`VerifyError`] if they don't.
pub fn verify<'v>(
    before: &'v Value<'_>,
    operations: &[Operation<'v>],
    after: &Value<'_>,
    pointer: &str,
) -> Result<(), VerifyError> {
    let mut got = before.borrowed();
    apply(&mut got, operations, pointer).map_err(VerifyError::Apply)?;
    if got == *after {
        return Ok(());
    }
    let mut differences = Vec::new();
    compare(&got, after, Known::default(), Pointer::Start(pointer), &mut differences);
    let path = differences.into_iter().next().map(|first| first.path).unwrap_or_default();
    Err(VerifyError::Differs { path })
}

/// The last step of a path, where all before it is `parents`.
fn step<'p>(path: &'p str, parents: &str) -> Option<&'p str> {
    path.strip_prefix(parents).filter(|step| !step.bytes().any(|byte| byte == b'/'))
}

/// Does what is to be done with the whole.
fn whole<'a>(target: &mut Value<'a>, operation: &Operation<'a>) -> Result<(), &'static str> {
    match operation.op {
        Op::Remove => Err("the whole can't be removed"),
        Op::Add | Op::Replace => {
            *target = operation.value.clone().ok_or(NO_VALUE)?;
            Ok(())
        }
    }
}

/// Does what is to be done in the object or list that its path is in; `last` is the path's last step.
fn one<'a>(parent: &mut Value<'a>, operation: &Operation<'a>, last: &str) -> Result<(), &'static str> {
    let value = || operation.value.clone().ok_or(NO_VALUE);
    match (parent, operation.op) {
        (Value::Object(map), Op::Add) => {
            map.insert(unescape(last).into_owned(), value()?);
        }
        (Value::Object(map), Op::Remove) => {
            map.remove(&unescape(last)).ok_or(MISSING)?;
        }
        (Value::Object(map), Op::Replace) => *map.get_mut(&unescape(last)).ok_or(MISSING)? = value()?,
        (Value::List(items), Op::Add) => {
            let at = index(last)?;
            if at > items.len() {
                return Err("the list is shorter");
            }
            items.insert(at, value()?);
        }
        (Value::List(items), Op::Remove) => {
            let at = index(last)?;
            if at >= items.len() {
                return Err("the list is shorter");
            }
            items.remove(at);
        }
        (Value::List(items), Op::Replace) => *items.get_mut(index(last)?).ok_or("the list is shorter")? = value()?,
        _ => return Err("its parent is no list and no object"),
    }
    Ok(())
}

const MISSING: &str = "there is no such key";
const NO_VALUE: &str = "there is no value";
const OUTSIDE: &str = "the path is outside";

/// What stands at a path that is empty or starts with `/`.
fn find<'t, 'a>(target: &'t mut Value<'a>, path: &str) -> Result<&'t mut Value<'a>, &'static str> {
    if path.is_empty() {
        return Ok(target);
    }
    let path = path.strip_prefix('/').ok_or(OUTSIDE)?;
    path.split('/').try_fold(target, |value, step| match value {
        Value::Object(map) => map.get_mut(&unescape(step)).ok_or(MISSING),
        Value::List(items) => items.get_mut(index(step)?).ok_or("the list is shorter"),
        _ => Err("its parent is no list and no object"),
    })
}

fn index(step: &str) -> Result<usize, &'static str> {
    let plain = step.bytes().all(|b| b.is_ascii_digit()) && (step == "0" || !step.starts_with('0'));
    step.parse().ok().filter(|_| plain).ok_or("that is no index of a list")
}

fn unescape(step: &str) -> std::borrow::Cow<'_, str> {
    if step.contains('~') { step.replace("~1", "/").replace("~0", "~").into() } else { step.into() }
}
