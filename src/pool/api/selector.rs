#![allow(unreachable_pub, reason = "the derive of the schema copies the structs into functions")]

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which pods of the pool's namespace are its job pods. An empty one would take every pod there, so it is refused.
#[derive(Clone, Debug, Default, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)").message("jobSelector is empty and would take every pod of the namespace: write matchLabels or matchExpressions"))]
pub struct JobSelector {
    /// Labels that a pod must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Requirements that a pod must meet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub match_expressions: Vec<Requirement>,
}

/// One requirement of a selector.
#[derive(Clone, Debug, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0 : !has(self.values) || size(self.values) == 0").message("In and NotIn need values, Exists and DoesNotExist take none"))]
pub struct Requirement {
    /// The label's key.
    #[schemars(length(min = 1, max = 317))]
    pub key: String,
    /// How it is compared.
    pub operator: Operator,
    /// The values, for In and NotIn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub values: Vec<String>,
}

/// How a label is compared.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum Operator {
    /// The label isn't there.
    DoesNotExist,
    /// The label is there.
    Exists,
    /// The label has one of the values.
    In,
    /// The label is missing or has another value.
    NotIn,
}

impl JobSelector {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// Whether a pod with these labels is one of the pool's job pods. The empty selector matches none.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let meets = |requirement: &Requirement| {
            let value = labels.get(&requirement.key);
            match requirement.operator {
                Operator::DoesNotExist => value.is_none(),
                Operator::Exists => value.is_some(),
                Operator::In => value.is_some_and(|value| requirement.values.contains(value)),
                Operator::NotIn => value.is_none_or(|value| !requirement.values.contains(value)),
            }
        };
        !self.is_empty()
            && self.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.match_expressions.iter().all(meets)
    }

    /// As `kubectl -l` and `/scale` write it.
    pub fn text(&self) -> String {
        let labels = self.match_labels.iter().map(|(key, value)| format!("{key}={value}"));
        let expressions = self.match_expressions.iter().map(|r| match r.operator {
            Operator::DoesNotExist => format!("!{}", r.key),
            Operator::Exists => r.key.clone(),
            Operator::In => format!("{} in ({})", r.key, r.values.join(",")),
            Operator::NotIn => format!("{} notin ({})", r.key, r.values.join(",")),
        });
        labels.chain(expressions).collect::<Vec<_>>().join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_means_what_kubernetes_means_and_the_empty_one_matches_nothing() {
        let labels = BTreeMap::from([("team".to_owned(), "a".to_owned())]);
        let requirement = |key: &str, operator, values: &[&str]| Requirement {
            key: key.into(),
            operator,
            values: values.iter().map(|&value| value.into()).collect(),
        };
        for (key, operator, values, want) in [
            ("team", Operator::In, &["a", "b"][..], true),
            ("team", Operator::In, &["b"], false),
            ("team", Operator::NotIn, &["a"], false),
            ("none", Operator::NotIn, &["a"], true),
            ("team", Operator::Exists, &[], true),
            ("none", Operator::Exists, &[], false),
            ("none", Operator::DoesNotExist, &[], true),
        ] {
            let selector =
                JobSelector { match_expressions: vec![requirement(key, operator, values)], ..JobSelector::default() };
            assert_eq!(selector.matches(&labels), want, "{}", selector.text());
        }
        assert!(!JobSelector::default().matches(&labels));
        let both = JobSelector {
            match_labels: labels.clone(),
            match_expressions: vec![requirement("x", Operator::NotIn, &["y", "z"])],
        };
        assert_eq!(both.text(), "team=a,x notin (y,z)");
        assert!(both.matches(&labels));
    }
}
