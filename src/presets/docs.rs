//! The presets as others read them: the chart as JSON, people as tables.

use std::{collections::BTreeMap, fmt::Write};

use serde::Serialize;

use super::{ContainerList, Members, Preset, Role, Rule, all, injected};

#[derive(Serialize)]
struct Published<'p> {
    name: &'p str,
    selectors: &'p [BTreeMap<String, Option<String>>],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    without: &'p [String],
}

/// What the chart makes match conditions of: for each preset its name and the labels of its pods.
pub fn json() -> String {
    let published = |preset: &'static Preset| Published {
        name: &preset.name,
        selectors: &preset.selectors,
        without: &preset.without,
    };
    let list: Vec<Published<'_>> = all().iter().map(published).collect();
    // INVARIANT: strings only, which serde_json can't refuse.
    #[allow(clippy::expect_used)]
    serde_json::to_string_pretty(&list).expect("presets are JSON")
}

/// One line for each preset: its name and which pods are its.
pub fn table() -> String {
    let width = all().iter().map(|preset| preset.name.len()).max().unwrap_or_default();
    let line = |preset: &Preset| format!("{:width$}  {}\n", preset.name, selectors(preset, ""));
    all().iter().map(line).collect()
}

/// The reference for people (`docs/presets.md`).
pub fn markdown() -> String {
    let mut out = String::from(HEAD);
    for preset in all() {
        let _ = writeln!(out, "| [`{0}`](#{0}) | {1} | {2} |", preset.name, preset.title, selectors(preset, "`"));
    }
    out.push_str(TAIL);
    let _ = writeln!(out, "{}.", quoted(injected()));
    all().iter().for_each(|preset| section(preset, &mut out));
    out
}

const HEAD: &str = "<!-- Printed by `podlayer presets -o markdown`; the data stand in src/presets. -->

# Presets

What podlayer knows of each CI system. A pod has the first preset of this list that fits its labels:

| preset | | pods |
|---|---|---|
";

const TAIL: &str = "
**Opting in.** `--presets buildkite,gitlab` (in the chart `presets.buildkite: true`) opts in the pods of these systems
without a label of podlayer's. By default none does, and only pods with `podlayer.dev/enabled: \"true\"` get layers. The
rest of a preset holds for every opted-in pod that it fits, whether or not `--presets` names it.

**Roles** are targets in a layer's patch: `name: \"@command\"` ([Writing layers](layers.md#containers)). One container
may play several.

**Protected** is what no layer and no step patch may change: those containers can be neither taken away nor added, and
the named fields and variables of them stay. A default or class that tries is left out, a step patch is refused.

**Reserved keys** can't be set by a layer's `podMetadata`, whatever the pod's preset.

**Injected containers** are those of other injectors. `*`, globs and roles leave them alone in every preset; only an
exact name reaches them: ";

fn section(preset: &Preset, out: &mut String) {
    let _ = write!(
        out,
        "\n## {}\n\n{}. Pods: {}. ({})\n\n",
        preset.name,
        preset.title,
        selectors(preset, "`"),
        preset.source
    );
    out.push_str("| role | containers |\n|---|---|\n");
    for role in Role::ALL {
        if let Some(members) = preset.roles.get(&role) {
            let _ = writeln!(out, "| `@{}` | {} |", role.as_str(), of_members(members));
        }
    }
    let row = |out: &mut String, name: &str, text: &str| _ = writeln!(out, "| {name} | {text} |");
    out.push_str("\n| | |\n|---|---|\n");
    let classes = match &preset.class {
        Some(source) => format!(
            "`podlayer.dev/classes`, and the label `{}`: a class of that name, none if there is none or its `match` doesn't fit \
             ({})",
            source.label, source.why
        ),
        None => "`podlayer.dev/classes`".into(),
    };
    row(out, "classes", &classes);
    row(out, "step patch", &preset.step);
    row(out, "where an author can write the spec elsewhere", &preset.elsewhere);
    let unforgeable = &preset.unforgeable;
    let mut parts: Vec<String> = Vec::new();
    for (kind, keys) in [("labels", &unforgeable.labels), ("annotations", &unforgeable.annotations)] {
        if !keys.is_empty() {
            parts.push(format!("{kind} {}", quoted(keys)));
        }
    }
    if parts.is_empty() {
        parts.push("nothing".into());
    }
    row(out, "what an author can't forge", &format!("{}; but {}", parts.join("; "), unforgeable.but));
    let reserved = &preset.reserved;
    let prefixes = reserved.prefixes.iter().map(|prefix| format!("{prefix}…"));
    let domains = reserved.domains.iter().map(|domain| format!("*.{domain}/…"));
    let keys: Vec<String> = prefixes.chain(domains).chain(reserved.keys.iter().cloned()).collect();
    row(out, "reserved keys", &quoted(&keys));
    let protected = &preset.protected;
    if !protected.is_empty() {
        let mut text = format!("{}: {}", of_members(&protected.containers), quoted(&protected.fields));
        if !protected.env.is_empty() {
            let _ = write!(text, ", variables {}", quoted(&protected.env));
        }
        if !protected.spec.is_empty() {
            let _ = write!(text, "; of the pod {}", quoted(&protected.spec));
        }
        row(out, "protected", &text);
    }
    row(out, "a refused pod", &format!("{} {} ({})", preset.denial.code, preset.denial.reason, preset.denial.why));
    out.push_str("\nTraps:\n\n");
    for trap in &preset.traps {
        let _ = writeln!(out, "- `{}`: {}", trap.name, trap.text);
    }
}

fn selectors(preset: &Preset, quote: &str) -> String {
    let one = |selector: &BTreeMap<String, Option<String>>| {
        let label = |(key, value): (&String, &Option<String>)| match value {
            Some(value) => format!("{quote}{key}={value}{quote}"),
            None => format!("{quote}{key}{quote}"),
        };
        selector.iter().map(label).collect::<Vec<_>>().join(" and ")
    };
    let mut text = preset.selectors.iter().map(one).collect::<Vec<_>>().join(", or ");
    for key in &preset.without {
        let _ = write!(text, ", without {quote}{key}{quote}");
    }
    text
}

fn of_members(members: &Members) -> String {
    let mut parts = Vec::new();
    for list in ContainerList::ALL {
        parts.extend(members.rules(list).iter().map(|rule| of_rule(rule, list)));
    }
    parts.join("; ")
}

fn of_rule(rule: &Rule, list: ContainerList) -> String {
    let kind = if list == ContainerList::InitContainers { "init " } else { "" };
    let mut text = match (&rule.names[..], rule.native) {
        ([], true) => format!("{kind}containers with `restartPolicy: Always`"),
        ([], false) => format!("{kind}containers"),
        (names, _) => format!("{kind}{}", quoted(names)),
    };
    if let Some(variable) = &rule.env {
        let _ = write!(text, " with the variable `{variable}`");
    }
    if let Some(command) = &rule.command {
        let _ = write!(text, " whose command starts with `{command}`");
    }
    if !rule.not.is_empty() {
        let _ = write!(text, ", but not {}", quoted(&rule.not));
    }
    text
}

fn quoted(words: &[String]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}
