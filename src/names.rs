//! Every name that podlayer shares with the outside, once.

/// The domain of podlayer's own labels and annotations; layers may set none of them.
pub const DOMAIN: &str = "podlayer.dev/";

/// Label on a pod (or a Job's pod template): `"true"` opts it in, no other value means anything.
pub const ENABLED: &str = "podlayer.dev/enabled";
/// The one value of [`ENABLED`] that counts.
pub const ENABLED_VALUE: &str = "true";
/// Annotation: the classes a pod asks for, comma-separated, applied in this order.
pub const CLASSES: &str = "podlayer.dev/classes";
/// Annotation: the step patch.
pub const STEP_PATCH: &str = "podlayer.dev/pod-spec-patch";
/// Annotation: what the default container runs, for a pod without containers.
pub const COMMAND: &str = "podlayer.dev/command";
/// Annotation: the default container's image.
pub const IMAGE: &str = "podlayer.dev/image";
/// Annotation written by the webhook: the stamp.
pub const APPLIED: &str = "podlayer.dev/applied";
/// Annotation written by the webhook: which layer set which field.
pub const PROVENANCE: &str = "podlayer.dev/provenance";

/// Label on a ConfigMap: it is a layer, and of this kind.
pub const LAYER: &str = "podlayer.dev/layer";
/// Label on a ConfigMap: its place among the layers of its kind, an integer.
pub const ORDER: &str = "podlayer.dev/order";

/// Label on everything that a pool holds: the pool's name.
pub const POOL: &str = "podlayer.dev/pool";
/// Label on a pool's pod: [`POOL_KIND_AGENT`] or [`POOL_KIND_HEADROOM`].
pub const POOL_KIND: &str = "podlayer.dev/pool-kind";
/// An agent.
pub const POOL_KIND_AGENT: &str = "agent";
/// A placeholder.
pub const POOL_KIND_HEADROOM: &str = "headroom";
/// A pool's BuildKit.
pub const POOL_KIND_BUILDKIT: &str = "buildkit";
/// Label on a pool's pod: which version of the template it was made from.
pub const POOL_TEMPLATE: &str = "podlayer.dev/pool-template";
/// Label on an agent: `"true"` while it is at work. The pool's PodDisruptionBudget looks for it.
pub const POOL_BUSY: &str = "podlayer.dev/busy";
/// Label on an agent: `"true"` once it is going. Nobody may give it work.
pub const POOL_DRAINING: &str = "podlayer.dev/draining";
/// Annotation that keeps the cluster autoscaler from a pod.
pub const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";
/// Annotation that keeps Karpenter from a pod.
pub const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
/// The PriorityClass of placeholders, unless told otherwise.
pub const HEADROOM_PRIORITY_CLASS: &str = "podlayer-headroom";
/// The image of placeholders, unless told otherwise: it waits and needs nothing.
pub const PLACEHOLDER_IMAGE: &str = "registry.k8s.io/pause:3.10";
/// The Secret with which Azure Pipelines signs, unless told otherwise: that of k8s-poolprovider.
pub const AZURE_SECRET: &str = "azurepipelines";
/// The namespace of agents, unless told otherwise: that of k8s-poolprovider.
pub const AZURE_NAMESPACE: &str = "azuredevops";
/// What the chart podlayer-ingress makes: Ingress or Gateway and routes, and the Certificate.
pub const AZURE_INGRESS: &str = "podlayer-azure";
/// Its Service, unless told otherwise: that of k8s-poolprovider.
pub const AZURE_SERVICE: &str = "azure-pipelines-pool";

/// The Lease that says which controller is at work.
pub const LEASE: &str = "podlayer-controller";

/// Key of a layer ConfigMap: the patch.
pub const KEY_PATCH: &str = "podSpecPatch";
/// Key of a layer ConfigMap: labels and annotations to set.
pub const KEY_METADATA: &str = "podMetadata";
/// Key of a layer ConfigMap: which pods.
pub const KEY_MATCH: &str = "match";
/// Key of a layer ConfigMap: how the layer applies.
pub const KEY_OPTIONS: &str = "options";
/// Key of a step-rules ConfigMap.
pub const KEY_RULES: &str = "rules";

/// The container that a pod without containers gets.
pub const DEFAULT_CONTAINER: &str = "container-0";

/// The namespace that podlayer runs in unless told otherwise.
pub const NAMESPACE: &str = "podlayer";

/// Label that the Job controller sets on its pods.
pub const JOB_NAME: &str = "batch.kubernetes.io/job-name";
/// Annotation that the Job controller sets on the pods of an indexed Job.
pub const JOB_COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// Environment variable that the Job controller sets in the pods of an indexed Job.
pub const JOB_COMPLETION_INDEX_ENV: &str = "JOB_COMPLETION_INDEX";

/// Annotation in which the API server's LimitRanger says what it filled in.
pub const LIMIT_RANGER: &str = "kubernetes.io/limit-ranger";

/// HTTPS port of the webhook. The kubelet's number, which clusters with a closed network between control plane and
/// nodes leave open; it collides with the kubelet under hostNetwork only.
pub const PORT_WEBHOOK: u16 = 10250;
/// Plain HTTP port for probes and metrics.
pub const PORT_ADMIN: u16 = 8080;
/// Path of the mutating webhook.
pub const PATH_MUTATE: &str = "/mutate";
/// Path of the validating webhook.
pub const PATH_VALIDATE: &str = "/validate";
/// Path of the readiness probe.
pub const PATH_READY: &str = "/readyz";
/// Path of the liveness probe.
pub const PATH_LIVE: &str = "/livez";
/// Path of the metrics.
pub const PATH_METRICS: &str = "/metrics";
/// Path of the layers in force.
pub const PATH_LAYERS: &str = "/layers";

/// Field manager of everything that podlayer applies.
pub const FIELD_MANAGER: &str = "podlayer";
/// Field manager of `caBundle` in the webhook configurations: its own, for an apply gives up whatever it leaves out.
pub const FIELD_MANAGER_CA_BUNDLE: &str = "podlayer-ca-bundle";

/// The ConfigMap that keeps the last good versions of bad layers across restarts; the chart makes it, empty.
pub const LAST_GOOD: &str = "podlayer-last-good";
/// Who Events say they come from.
pub const EVENT_REPORTER: &str = "podlayer.dev/webhook";
/// Secret in podlayer's own namespace that holds the CA of self-managed certificates. The chart makes it, empty.
pub const CA_SECRET: &str = "podlayer-ca";
/// Service by which API servers reach the webhook; its name is in the certificate.
pub const SERVICE: &str = "podlayer";
/// Name of the mutating and of the validating webhook configuration. They run in the order of their names, so this one
/// comes after other injectors'.
pub const WEBHOOK_CONFIGURATION: &str = "zz-podlayer";
/// Field manager of what pools hold.
pub const FIELD_MANAGER_POOLS: &str = "podlayer-pools";
/// Field manager of the pools' status: its own, for an apply gives up whatever it leaves out.
pub const FIELD_MANAGER_POOL_STATUS: &str = "podlayer-pool-status";
/// Path below which pools tell their demand: `/v1/pools/NAMESPACE/NAME`.
pub const PATH_POOLS: &str = "/v1/pools";

/// Label on an agent of Azure Pipelines, and on what an older provider made: which.
pub const AGENT_ID: &str = "AgentId";
/// Annotation of an azure pool's Lease: its agents and what is known of each.
pub const AZURE_AGENTS: &str = "podlayer.dev/azure-agents";
/// Annotation of an agent: a hash of whom it was made for.
pub const AZURE_BINDING: &str = "podlayer.dev/azure-binding";
/// The key of the Secret with which Azure Pipelines signs, unless told otherwise: that of k8s-poolprovider.
pub const AZURE_SECRET_KEY: &str = "VSTS_SECRET";
/// Header with the signature of a call of Azure Pipelines.
pub const AZURE_SIGNATURE: &str = "x-azure-signature";
/// Header with which Azure Pipelines says what a call belongs to.
pub const AZURE_ORCHESTRATION: &str = "x-vss-orchestrationid";
/// Plain HTTP port, behind an ingress, for Azure Pipelines.
pub const PORT_AZURE: u16 = 8081;
/// Last part of the path to ask for an agent, also alone, for the default pool.
pub const PATH_ACQUIRE: &str = "/acquire";
/// Last part of the path to give an agent back, also alone, for the default pool.
pub const PATH_RELEASE: &str = "/release";
/// Last part of the path to ask how an agent is.
pub const PATH_STATUS: &str = "/status";
/// Last part of the path to ask which agents there can be.
pub const PATH_DEFINITIONS: &str = "/definitions";
/// Last part of the path to ask how many agents there can be.
pub const PATH_PARALLELISM: &str = "/parallelism";
/// Field manager of what is made for Azure Pipelines.
pub const FIELD_MANAGER_AZURE: &str = "podlayer-azure";
/// Environment variable by which an agent's container knows where it is.
pub const AZURE_RUNNING_ON: &str = "RUNNING_ON";
/// The value of [`AZURE_RUNNING_ON`].
pub const AZURE_RUNNING_ON_VALUE: &str = "KUBERNETES";
/// Where an agent's container finds its configuration.
pub const AZURE_MOUNT: &str = "/azurepipelines/agent";
/// The Service by which builds of Azure Pipelines know BuildKit.
pub const AZURE_BUILDKIT_SERVICE: &str = "buildkitd";
/// Label by which the task ContainerBuild@0 finds BuildKit's pods; its value is [`POOL_KIND_BUILDKIT`].
pub const AZURE_BUILDKIT_LABEL: &str = "role";
