#![allow(unreachable_pub, reason = "the derive of the schema copies the structs into functions")]

use std::{collections::BTreeMap, time::Duration};

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{AgentPoolStatus, Azure, JobSelector};

/// A number of agents, or of headroom, kept for the job pods of one namespace.
#[derive(Clone, CustomResource, Debug, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "podlayer.dev",
    version = "v1alpha1",
    kind = "AgentPool",
    namespaced,
    status = "AgentPoolStatus",
    derive = "PartialEq",
    shortname = "ap",
    category = "podlayer",
    doc = "Keeps the right number of agents, or of headroom, for the job pods of one namespace.",
    validation = Rule::new("size(self.metadata.name) <= 40").message("the name has more than 40 characters: the names of its pods, which begin with it, would get too long"),
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Mode", type_ = "string", json_path = ".spec.mode"),
    printcolumn(name = "MinIdle", type_ = "integer", json_path = ".spec.minIdle"),
    printcolumn(name = "Max", type_ = "integer", json_path = ".spec.max"),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".status.desired"),
    printcolumn(name = "Idle", type_ = "integer", json_path = ".status.idle"),
    printcolumn(name = "Busy", type_ = "integer", json_path = ".status.busy"),
    printcolumn(name = "Queued", type_ = "integer", json_path = ".status.queued"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(
        name = "Limited",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"ScalingLimited\")].reason"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Stuck", type_ = "integer", json_path = ".status.stuck", priority = 1),
    printcolumn(name = "Failed", type_ = "integer", json_path = ".status.failed", priority = 1),
    printcolumn(name = "Schedule", type_ = "string", json_path = ".status.activeSchedule", priority = 1),
    printcolumn(name = "LastScale", type_ = "date", json_path = ".status.lastScaleUpTime", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.mode != 'Agents' || has(self.template)").message("mode Agents needs a template to make agents from"),
    validation = Rule::new("!has(self.minIdle) || self.minIdle <= self.max").message("minIdle is more than max"),
    validation = Rule::new("!has(self.shapeFrom) || self.shapeFrom != 'Template' || has(self.template)").message("shapeFrom: Template needs a template"),
    validation = Rule::new("self.mode != 'Agents' || !has(self.busy) || self.busy.source != 'PodPhase' || !has(self.minIdle) || self.minIdle == 0").message("with busy.source PodPhase every running agent is busy and none is ever idle: minIdle must be 0"),
    validation = Rule::new("has(self.jobSelector) || has(self.azure)").message("jobSelector is missing: write which pods are the pool's job pods"),
    validation = Rule::new("!has(self.azure) || self.mode == 'Agents'").message("azure needs mode Agents: Azure Pipelines asks for agents made from the template"),
    validation = Rule::new("!has(self.azure) || ((!has(self.minIdle) || self.minIdle == 0) && self.replicas == 0)").message("with azure, Azure Pipelines says how many agents there are: minIdle and replicas must be 0"),
    validation = Rule::new("!has(self.azure) || !has(self.busy) || self.busy.source == 'PodPhase'").message("with azure every running agent is busy: leave busy out"),
    validation = Rule::new("!has(self.azure) || self.max <= 2000").message("with azure, max is at most 2000")
)]
pub struct AgentPoolSpec {
    /// Headroom keeps placeholder pods of the job pods' shape, which a real job pod preempts. Agents keeps warm agents
    /// made from the template. Observe makes nothing and counts.
    pub mode: Mode,
    /// Which pods of the namespace are the pool's job pods. Only with azure it may be left out.
    #[serde(default, skip_serializing_if = "JobSelector::is_empty")]
    pub job_selector: JobSelector,
    /// What agents are made from; under Headroom, what the placeholders are shaped like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<Template>,
    /// Headroom: where the shape comes from. Left out: the template if there is one, else the newest job pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape_from: Option<ShapeFrom>,
    /// Agents: images of the template's containers. Headroom: images that are pulled ahead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub images: Vec<PoolImage>,
    /// A BuildKit beside the pool, with a Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buildkit: Option<Buildkit>,
    /// Agents: Azure Pipelines asks for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub azure: Option<Azure>,
    /// How many idle agents (placeholders) are kept beyond what is at work. Left out: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10000))]
    pub min_idle: Option<i32>,
    /// How many pods the pool may hold altogether, those that are stuck or going too.
    #[schemars(range(min = 0, max = 10000))]
    pub max: i32,
    /// How many of them may be waiting to start. Left out: 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10000))]
    pub max_pending: Option<i32>,
    /// Headroom: placeholders for each hundred job pods at work, beside minIdle. Left out: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub headroom_percent: Option<i32>,
    /// For `/scale` (HPA, KEDA, kubectl scale): the pool is at least as large as this. Leave it out of manifests that
    /// something else scales.
    #[serde(default)]
    #[schemars(range(min = 0, max = 10000))]
    pub replicas: i32,
    /// How fast it grows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_up: Option<ScaleUp>,
    /// How fast it shrinks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_down: Option<ScaleDown>,
    /// Agents: what says that one is at work. Left out: the label podlayer.dev/busy is "true".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy: Option<Busy>,
    /// What keeps others from busy agents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protection: Option<Protection>,
    /// How long a pod may take to run before it counts as stuck. Left out: 300.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 5, max = 86400))]
    pub start_timeout_seconds: Option<i32>,
    /// How long nothing is made after pods that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_backoff: Option<Backoff>,
    /// Other numbers at certain times; of several that are on, the last counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub schedules: Vec<Schedule>,
    /// Nothing is made and nothing taken away. Left out: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
}

/// What a pool holds.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum Mode {
    /// Warm agents.
    Agents,
    /// Placeholders for job pods.
    Headroom,
    /// Nothing: it counts.
    Observe,
}

/// Where the shape of placeholders comes from.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum ShapeFrom {
    /// The newest pod that matched the job selector.
    JobSelectorSample,
    /// The template, as a job pod that brings it.
    Template,
}

/// A pod template. What is in its spec is the API server's to check, when a pod is made of it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Template {
    /// Labels and annotations.
    #[serde(default, skip_serializing_if = "TemplateMetadata::is_empty")]
    pub metadata: TemplateMetadata,
    /// The PodSpec.
    #[schemars(schema_with = "any_object")]
    pub spec: Value,
}

/// Labels and annotations of a template.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct TemplateMetadata {
    /// Labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// An image of the pool.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct PoolImage {
    /// Agents: the container of the template that it is for; under azure, what pipelines call it. Headroom: any name.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// The image.
    #[schemars(length(min = 1, max = 1024))]
    pub image: String,
}

/// A BuildKit beside the pool.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Buildkit {
    /// How many.
    #[schemars(range(min = 0, max = 100))]
    pub replicas: i32,
    /// Its image. Left out: moby/buildkit:rootless.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub image: Option<String>,
}

/// How fast a pool grows.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ScaleUp {
    /// At most so many pods by one decision. Left out: 50.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10000))]
    pub max_step: Option<i32>,
    /// At most so many pods a minute, once burst is used up. Left out: no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 60000))]
    pub rate_per_minute: Option<i32>,
    /// How many pods may come at once under ratePerMinute. Left out: ratePerMinute.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10000))]
    pub burst: Option<i32>,
}

/// How fast a pool shrinks.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ScaleDown {
    /// How long after the last demand nothing is taken away. Left out: 300.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 86400))]
    pub delay_seconds: Option<i32>,
    /// How long an agent must have been idle. Left out: 0.
    #[serde(rename = "idleTTLSeconds", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 604800))]
    pub idle_ttl_seconds: Option<i32>,
    /// At most so many pods by one decision. Left out: 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10000))]
    pub max_step: Option<i32>,
    /// Which go first. Left out: Newest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
}

/// Which idle pods go first.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum Order {
    /// The youngest.
    #[default]
    Newest,
    /// The oldest.
    Oldest,
}

/// What says that an agent is at work.
#[derive(Clone, Debug, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
#[x_kube(validation = Rule::new("self.source == 'PodPhase' || has(self.key)").message("busy.source Label, Annotation and ReadinessGate need a key"))]
pub struct Busy {
    /// Where to look.
    pub source: BusySource,
    /// The label's or annotation's key, or the type of the pod condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 317))]
    pub key: Option<String>,
    /// The value that means busy. Left out: "true"; for a readiness gate "False".
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub value: Option<String>,
}

/// Where to look whether an agent is at work.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum BusySource {
    /// An annotation has the value.
    Annotation,
    /// A label has the value.
    Label,
    /// Every running agent is at work: for agents that take one job.
    PodPhase,
    /// A condition of the pod has the value. While nobody has set it, nothing is known, which counts as busy.
    ReadinessGate,
}

/// What keeps others from busy agents.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Protection {
    /// Annotations that keep the cluster autoscaler and Karpenter away. Left out: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<bool>,
    /// A PodDisruptionBudget over the busy agents. Left out: Busy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pdb: Option<PdbMode>,
}

/// Which PodDisruptionBudget a pool has.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum PdbMode {
    /// One over the busy agents.
    #[default]
    Busy,
    /// None.
    None,
}

/// How long nothing is made after pods that failed: base, doubled with each failure in a row, up to the cap.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Backoff {
    /// After the first. Left out: 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3600))]
    pub base_seconds: Option<i32>,
    /// At most. Left out: 300.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86400))]
    pub cap_seconds: Option<i32>,
}

/// Other numbers at certain times.
#[derive(Clone, Debug, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.minIdle) || has(self.max)").message("a schedule must set minIdle or max"),
    validation = Rule::new("!has(self.minIdle) || !has(self.max) || self.minIdle <= self.max").message("minIdle is more than max")
)]
pub struct Schedule {
    /// Its name.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// When it begins: a cron expression of five fields.
    #[schemars(length(min = 9, max = 100))]
    pub start: String,
    /// How long it lasts.
    #[schemars(range(min = 60, max = 2678400))]
    pub duration_seconds: i32,
    /// The time zone of the cron expression by its IANA name. Left out: UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub timezone: Option<String>,
    /// minIdle while it lasts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10000))]
    pub min_idle: Option<i32>,
    /// max while it lasts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10000))]
    pub max: Option<i32>,
}

impl TemplateMetadata {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.annotations.is_empty()
    }
}

impl AgentPoolSpec {
    /// How many pods may be waiting to start.
    pub fn pending_bound(&self) -> i32 {
        self.max_pending.unwrap_or(100)
    }

    /// At most so many pods are made by one decision.
    pub fn step_up(&self) -> i32 {
        self.scale_up.as_ref().and_then(|up| up.max_step).unwrap_or(50)
    }

    /// Pods a minute and pods at once, where that is bounded.
    pub fn rate(&self) -> Option<(i32, i32)> {
        let up = self.scale_up.as_ref()?;
        let rate = up.rate_per_minute?;
        Some((rate, up.burst.unwrap_or(rate)))
    }

    /// At most so many pods are taken away by one decision.
    pub fn step_down(&self) -> usize {
        let step = self.scale_down.as_ref().and_then(|down| down.max_step).unwrap_or(10);
        usize::try_from(step).unwrap_or(0)
    }

    /// How long after the last demand nothing is taken away.
    pub fn scale_down_delay(&self) -> Duration {
        seconds(self.scale_down.as_ref().and_then(|down| down.delay_seconds), 300)
    }

    /// How long an agent must have been idle before it is taken away.
    pub fn idle_ttl(&self) -> Duration {
        seconds(self.scale_down.as_ref().and_then(|down| down.idle_ttl_seconds), 0)
    }

    /// Which idle pods go first.
    pub fn order(&self) -> Order {
        self.scale_down.as_ref().and_then(|down| down.order).unwrap_or_default()
    }

    /// How long a pod may take to run.
    pub fn start_timeout(&self) -> Duration {
        seconds(self.start_timeout_seconds, 300)
    }

    /// How long nothing is made after so many failures in a row.
    pub fn backoff(&self, failures: u32) -> Duration {
        let backoff = self.failure_backoff.as_ref();
        let base = seconds(backoff.and_then(|backoff| backoff.base_seconds), 10);
        let cap = seconds(backoff.and_then(|backoff| backoff.cap_seconds), 300);
        // 2^30 times a second is longer than any cap.
        base.saturating_mul(1 << failures.saturating_sub(1).min(30)).min(cap)
    }

    /// Whether the annotations that keep autoscalers away are set.
    pub fn annotates(&self) -> bool {
        self.protection.as_ref().and_then(|protection| protection.annotations).unwrap_or(true)
    }

    /// Which PodDisruptionBudget the pool has.
    pub fn pdb(&self) -> PdbMode {
        self.protection.as_ref().and_then(|protection| protection.pdb).unwrap_or_default()
    }

    /// Whether nothing is to be done.
    pub fn is_paused(&self) -> bool {
        self.paused.unwrap_or(false)
    }

    /// Where to look whether an agent is at work.
    pub fn busy_source(&self) -> BusySource {
        // Azure Pipelines asks for an agent when it has a job for it.
        let default = if self.azure.is_some() { BusySource::PodPhase } else { BusySource::Label };
        self.busy.as_ref().map_or(default, |busy| busy.source)
    }
}

fn seconds(given: Option<i32>, default: u64) -> Duration {
    Duration::from_secs(given.map_or(default, |seconds| u64::try_from(seconds).unwrap_or(0)))
}

fn any_object(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}
