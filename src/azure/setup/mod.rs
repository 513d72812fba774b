//! Installs what a pool of Azure Pipelines needs in a cluster and makes it reachable: the plan, which is pure and can be
//! printed, and what carries it out.

mod cluster;
mod dns;
mod options;
mod plan;
mod run;
mod tools;
mod values;

pub use cluster::ClusterError;
pub use dns::{AZURE_ZONE, DnsError};
pub use options::{Certificate, Dns, Exposure, Image, ImageError, Options, OptionsError, PoolFile, Target};
pub use plan::{Plan, Release, Step};
pub use run::{RunError, run};
pub use tools::{Tool, ToolError, Tools};
pub use values::OtherDefaultPool;
