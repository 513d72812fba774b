use super::{Complaint, Place, fields::Fields};
use crate::value::{Document, Map, Value, glob_matches};

/// What layers are matched against: all that is known of a pod when it is decided.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'p> {
    /// The namespace of the request.
    pub namespace: &'p str,
    /// The pod's labels, where it has any.
    pub labels: Option<&'p Map<'p>>,
    /// The pod's annotations, where it has any.
    pub annotations: Option<&'p Map<'p>>,
}

impl<'p> Facts<'p> {
    /// A label's value.
    pub fn label(&self, key: &str) -> Option<&'p str> {
        self.labels?.get(key)?.as_str()
    }

    /// An annotation's value.
    pub fn annotation(&self, key: &str) -> Option<&'p str> {
        self.annotations?.get(key)?.as_str()
    }
}

/// Which pods a layer is for; all its parts must fit. The empty one fits every pod.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Selector {
    labels: Vec<(String, String)>,
    expressions: Vec<Expression>,
    namespaces: Vec<String>,
    annotations: Vec<(String, String)>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
struct Expression {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Operator {
    DoesNotExist,
    Exists,
    In,
    NotIn,
}

impl Selector {
    /// Reads the `match` key: `matchLabels`, `matchExpressions` as in every Kubernetes selector, `namespaces` (globs),
    /// `annotations` (key and value).
    ///
    /// # Errors
    /// A complaint about the first key or value that is wrong.
    pub(super) fn parse(document: &Document, place: &Place) -> Result<Self, Complaint> {
        let known = ["matchLabels", "matchExpressions", "namespaces", "annotations"];
        let fields = Fields::document(document, "match", &known, place.clone())?;
        let expressions = fields.maps("matchExpressions", &["key", "operator", "values"])?;
        Ok(Self {
            labels: pairs(&fields, "matchLabels")?,
            expressions: expressions.iter().map(Expression::parse).collect::<Result<_, _>>()?,
            namespaces: fields.strings("namespaces")?,
            annotations: pairs(&fields, "annotations")?,
        })
    }

    /// Whether a pod with these facts is meant.
    pub fn matches(&self, facts: &Facts<'_>) -> bool {
        self.labels.iter().all(|(key, value)| facts.label(key) == Some(value))
            && self.expressions.iter().all(|expression| expression.matches(facts))
            && (self.namespaces.is_empty() || self.namespaces.iter().any(|glob| glob_matches(glob, facts.namespace)))
            && self.annotations.iter().all(|(key, value)| facts.annotation(key) == Some(value))
    }

    /// The labels that a pod must have.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        let wants = |expression: &&Expression| matches!(expression.operator, Operator::Exists | Operator::In);
        let expressions = self.expressions.iter().filter(wants).map(|expression| expression.key.as_str());
        self.labels.iter().map(|(key, _)| key.as_str()).chain(expressions)
    }

    /// Whether it looks at labels or annotations, which a layer can change.
    pub fn reads_metadata(&self) -> bool {
        !(self.labels.is_empty() && self.expressions.is_empty() && self.annotations.is_empty())
    }
}

impl Expression {
    fn parse(fields: &Fields<'_>) -> Result<Self, Complaint> {
        let operators = [
            ("DoesNotExist", Operator::DoesNotExist),
            ("Exists", Operator::Exists),
            ("In", Operator::In),
            ("NotIn", Operator::NotIn),
        ];
        let (key, operator) = (fields.string("key")?, fields.choice("operator", &operators)?);
        let values = fields.strings("values")?;
        let here = fields.here();
        let (Some(key), Some(operator)) = (key, operator) else {
            return Err(fields.complaint("an expression of match wants key and operator".into(), here));
        };
        let wants_values = matches!(operator, Operator::In | Operator::NotIn);
        if wants_values == values.is_empty() {
            let text = if wants_values { "In and NotIn want values" } else { "Exists and DoesNotExist take no values" };
            return Err(fields.complaint(format!("match.matchExpressions, key {key:?}: {text}"), here));
        }
        Ok(Self { key, operator, values })
    }

    /// As Kubernetes' label selectors: `NotIn` also fits a pod without the label.
    fn matches(&self, facts: &Facts<'_>) -> bool {
        let label = facts.label(&self.key);
        let listed = label.is_some_and(|label| self.values.iter().any(|value| value == label));
        match self.operator {
            Operator::DoesNotExist => label.is_none(),
            Operator::Exists => label.is_some(),
            Operator::In => listed,
            Operator::NotIn => !listed,
        }
    }
}

fn pairs(fields: &Fields<'_>, key: &str) -> Result<Vec<(String, String)>, Complaint> {
    let Some(map) = fields.map(key, &[])? else { return Ok(Vec::new()) };
    map.entries()
        .map(|(name, entry)| match entry.value {
            Value::String(text) => Ok((name.to_owned(), text.to_string())),
            _ => Err(map.wrong(name, "a string", entry)),
        })
        .collect()
}
