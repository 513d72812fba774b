use super::{Containers, Limit, OnViolation, Pattern, PrivilegedFrom, Rules, privileged};
use crate::{
    layers::{
        Complaint, Place, UnionList,
        fields::{Entry, Fields},
    },
    schema::Quantity,
    value::{Document, Value},
};

/// Stands in `allow` for the built-in list.
const BUILTIN: &str = "@builtin";

impl Rules {
    /// Reads the `rules` key.
    ///
    /// # Errors
    /// A complaint about the first key or value that is wrong: an unknown field in a path, a path that gives privileges
    /// without `privileged: true`, an amount that is none.
    pub(in crate::layers) fn parse(document: &Document, place: &Place) -> Result<Self, Complaint> {
        let known = [
            "allow",
            "images",
            "secrets",
            "limits",
            "containers",
            "unionLists",
            "onViolation",
            "privileged",
            "privilegedFrom",
        ];
        let fields = Fields::document(document, "rules", &known, place.clone())?;
        let privileged = fields.bool("privileged")?.unwrap_or_default();
        let (mut allow, mut builtin) = (Vec::new(), fields.get("allow").is_none());
        for entry in fields.list("allow")? {
            let text = fields.string_of("allow", entry)?;
            if text.trim() == BUILTIN {
                builtin = true;
                continue;
            }
            let pattern = path(&fields, "allow", &text, entry)?;
            if let Some(field) = privileged::reached_by(&pattern).filter(|_| !privileged) {
                let text = format!(
                    "rules.allow: {text:?} gives privileges ({}: {}), write privileged: true beside it if that is meant",
                    field.path, field.why
                );
                return Err(fields.complaint(text, entry.marks.at));
            }
            allow.push(pattern);
        }
        let mut limits = Vec::new();
        if let Some(map) = fields.map("limits", &[])? {
            for (text, entry) in map.entries() {
                limits.push(limit(&map, text, entry)?);
            }
        }
        let union_list = |entry: Entry<'_>| {
            let text = fields.string_of("unionLists", entry)?;
            UnionList::parse(&text)
                .map_err(|error| fields.complaint(format!("rules.unionLists: {error}"), entry.marks.at))
        };
        let containers = [("Add", Containers::Add), ("No", Containers::No)];
        let on_violation = [("Clamp", OnViolation::Clamp), ("Deny", OnViolation::Deny), ("Drop", OnViolation::Drop)];
        let from = [("Anyone", PrivilegedFrom::Anyone), ("LayersOnly", PrivilegedFrom::LayersOnly)];
        Ok(Self {
            allow,
            builtin,
            images: globs(&fields, "images")?,
            secrets: globs(&fields, "secrets")?,
            limits,
            // To YAML an unquoted No is false.
            containers: match fields.get("containers").map(|entry| entry.value) {
                Some(Value::Bool(false)) => Containers::No,
                _ => fields.choice("containers", &containers)?.unwrap_or_default(),
            },
            union_lists: fields.list("unionLists")?.into_iter().map(union_list).collect::<Result<_, _>>()?,
            on_violation: fields.choice("onViolation", &on_violation)?.unwrap_or_default(),
            privileged,
            privileged_from: fields.choice("privilegedFrom", &from)?,
        })
    }
}

fn globs(fields: &Fields<'_>, key: &str) -> Result<Option<Vec<String>>, Complaint> {
    fields.get(key).map(|_| fields.strings(key)).transpose()
}

fn path(fields: &Fields<'_>, key: &str, text: &str, entry: Entry<'_>) -> Result<Pattern, Complaint> {
    let pattern =
        Pattern::parse(text).map_err(|error| fields.complaint(format!("rules.{key}: {error}"), entry.marks.shown()))?;
    if text.contains("[+]") {
        let text = format!("rules.{key}: path {text:?}: [+] stands in the built-in list only, write [*]");
        return Err(fields.complaint(text, entry.marks.shown()));
    }
    Ok(pattern)
}

fn limit(fields: &Fields<'_>, text: &str, entry: Entry<'_>) -> Result<Limit, Complaint> {
    let path = path(fields, "limits", text, entry)?;
    if !path.is_amount() {
        let text =
            format!("rules.limits: {text:?} is no amount, write a path such as containers[*].resources.limits.cpu");
        return Err(fields.complaint(text, entry.marks.shown()));
    }
    let most = Quantity::of(entry.value)
        .map_err(|error| fields.complaint(format!("rules.limits, {text}: {error}"), entry.marks.at))?;
    if path.is_whole() && !matches!(entry.value, Value::Int(_)) {
        return Err(fields.wrong(text, "a whole number", entry));
    }
    let text = entry.value.scalar_text().unwrap_or_default().into_owned();
    Ok(Limit { path, most, text, value: entry.value.clone() })
}
