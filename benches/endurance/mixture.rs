//! What callers ask: pods of several sizes, of many namespaces, and among them what is refused or can't be read.

use std::error::Error;

use podlayer::names;
use serde_json::Value;

use crate::common::report::review;

/// What comes how often of a hundred calls: the review, what is done to it, and the status that answers it.
const PARTS: [(usize, &str, Change, u16); 7] = [
    (60, "4k", Change::None, 200),
    (20, "16k", Change::None, 200),
    (8, "64k", Change::None, 200),
    (2, "1500env", Change::None, 200),
    (4, "4k", Change::NotOptedIn, 200),
    (4, "4k", Change::WrongStep, 200),
    (2, "16k", Change::CutOff, 400),
];

#[derive(Clone, Copy)]
enum Change {
    None,
    NotOptedIn,
    WrongStep,
    CutOff,
}

/// One body with a hole where its namespace belongs.
struct Body {
    parts: Vec<Vec<u8>>,
    status: u16,
}

/// A hundred bodies, shuffled the same way each time.
pub(crate) struct Mixture {
    bodies: Vec<Body>,
    turns: Vec<usize>,
    namespaces: u32,
}

impl Mixture {
    pub(crate) fn of(namespaces: u32) -> Result<Self, Box<dyn Error>> {
        let mut bodies = Vec::new();
        let mut turns = Vec::new();
        for (at, (count, name, change, status)) in PARTS.into_iter().enumerate() {
            bodies.push(body(name, change, status)?);
            turns.extend(std::iter::repeat_n(at, count));
        }
        // 37 and 100 have no common divisor, so that each place is met once and like ones don't come together.
        let turns = (0..turns.len()).map(|at| turns[at * 37 % turns.len()]).collect();
        Ok(Self { bodies, turns, namespaces })
    }

    /// The body of one call of many, and the status that it is to be answered with.
    pub(crate) fn call(&self, number: u32) -> (Vec<u8>, u16) {
        let body = &self.bodies[self.turns[number as usize % self.turns.len()]];
        (body.parts.join(namespace(number % self.namespaces).as_bytes()), body.status)
    }
}

/// The name of one of the namespaces.
pub(crate) fn namespace(number: u32) -> String {
    format!("team-{number:05}")
}

fn body(name: &str, change: Change, status: u16) -> Result<Body, Box<dyn Error>> {
    let mut recorded: Value = serde_json::from_slice(&review(name)?)?;
    let namespace = recorded["request"]["namespace"].as_str().ok_or("a review without namespace")?.to_owned();
    let metadata = &mut recorded["request"]["object"]["metadata"];
    match change {
        Change::None | Change::CutOff => {}
        Change::NotOptedIn => metadata["labels"] = Value::Object(serde_json::Map::new()),
        Change::WrongStep => {
            metadata["annotations"][names::STEP_PATCH] = "containers: [{name: container-0, resource: {}}]".into()
        }
    }
    let mut text = recorded.to_string();
    if matches!(change, Change::CutOff) {
        text.truncate(text.len() / 2);
    }
    let hole = format!("\"namespace\":\"{namespace}\"");
    let parts: Vec<&str> = text.split(&hole).collect();
    if parts.len() < 2 {
        return Err(format!("the review {name} has its namespace nowhere").into());
    }
    // The key and the quotes stay around the hole.
    let last = parts.len() - 1;
    let parts = parts.iter().enumerate().map(|(at, part)| {
        let before = if at == 0 { "" } else { "\"" };
        let after = if at == last { "" } else { "\"namespace\":\"" };
        format!("{before}{part}{after}").into_bytes()
    });
    Ok(Body { parts: parts.collect(), status })
}
