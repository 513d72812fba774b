use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the controller saw and did last. All of it is counts, times and words: nothing grows with the number of pods.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentPoolStatus {
    /// The generation of the spec that the rest is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The pods that `/scale` counts, as a selector's text: HPA needs it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub selector: String,
    /// Pods that the pool holds: starting, busy and idle ones.
    pub replicas: i32,
    /// Pods that it should hold.
    pub desired: i32,
    /// Job pods that wait for a place.
    pub queued: i32,
    /// Pods on their way.
    pub starting: i32,
    /// Pods at work, or of which nobody knows.
    pub busy: i32,
    /// Pods that wait for work.
    pub idle: i32,
    /// Pods that don't start.
    pub stuck: i32,
    /// Pods that failed and are still there.
    pub failed: i32,
    /// Pods that are going.
    pub terminating: i32,
    /// Pods that should be gone by now.
    pub terminating_stuck: i32,
    /// When pods were added last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_scale_up_time: Option<String>,
    /// When pods were taken away last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_scale_down_time: Option<String>,
    /// When work was waiting or running last, to the minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_demand_time: Option<String>,
    /// The schedule in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_schedule: Option<String>,
    /// Why the last decision was what it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_decision: Option<LastDecision>,
    /// Ready, ScalingActive, ScalingLimited, Degraded, Paused, Conflict.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Why the last decision was what it was.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LastDecision {
    /// A word.
    pub reason: String,
    /// A sentence.
    pub message: String,
    /// The numbers that went in.
    pub inputs: Inputs,
}

/// The numbers that a decision was made from.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Inputs {
    /// The idle floor in force.
    pub min_idle: i32,
    /// The ceiling in force.
    pub max: i32,
    /// What was asked for by `/scale`.
    pub replicas: i32,
}

/// The names of the conditions.
pub mod condition {
    /// The pool holds what it should, or as much as it may.
    pub const READY: &str = "Ready";
    /// What the controller sees can be relied on.
    pub const SCALING_ACTIVE: &str = "ScalingActive";
    /// Something keeps the pool from the size that it should have.
    pub const SCALING_LIMITED: &str = "ScalingLimited";
    /// Pods of the pool don't start.
    pub const DEGRADED: &str = "Degraded";
    /// `spec.paused`.
    pub const PAUSED: &str = "Paused";
    /// Two writers set `spec.replicas`.
    pub const CONFLICT: &str = "Conflict";
}

/// One condition, as everywhere in Kubernetes.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Its name.
    #[serde(rename = "type")]
    pub kind: String,
    /// True, False or Unknown.
    pub status: String,
    /// A word that says why.
    pub reason: String,
    /// A sentence that says why.
    pub message: String,
    /// When the status changed last.
    pub last_transition_time: String,
    /// The generation of the spec that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
