//! Registers the endpoint with Azure DevOps: an agent cloud, and a pool of agents on it.

mod api;
mod client;
mod endpoints;
mod organization;
mod pat;
mod register;
mod unregister;

pub use client::{CallError, Client, ClientError, Refusal};
pub use endpoints::{Endpoints, Optional, PoolPath, PoolPathError};
pub use organization::{Organization, OrganizationError};
pub use pat::{Pat, PatError};
pub use register::{Entry, RegisterError, Registered, Registration, register};
pub use unregister::{UnregisterError, Unregistered, unregister};
