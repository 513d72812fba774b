use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use tokio::{sync::watch, time::Instant};

use super::World;
use crate::names;

/// How long a Lease holds without being renewed; Kubernetes' own controllers have 15 s, 10 s and 2 s too.
const HOLDS: Duration = Duration::from_secs(15);
/// How long its holder may fail to renew it before it stops: well before anybody else may take it.
const GIVES_UP: Duration = Duration::from_secs(10);
/// How often it is renewed, or looked at.
const RENEWS: Duration = Duration::from_secs(2);

/// Why this process leads no more.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// It could not be renewed in time.
    #[error("the Lease could not be renewed for {} s", GIVES_UP.as_secs())]
    NotRenewed(#[source] kube::Error),
    /// Another took it.
    #[error("the Lease is held by {0}")]
    TakenBy(String),
}

/// The right to change pools: one process at a time has it.
#[derive(Clone, Debug)]
pub struct Leadership {
    api: Api<Lease>,
    identity: String,
    world: Arc<World>,
}

impl Leadership {
    /// Of the controllers in this namespace. The world is told whenever the API server answers.
    pub fn new(client: Client, namespace: &str, identity: String, world: Arc<World>) -> Self {
        Self { api: Api::namespaced(client, namespace), identity, world }
    }

    /// Waits until it has the Lease, says since when it leads, and keeps it until it is lost; then whoever runs this must
    /// end, for writes may be under way that nobody should make any more.
    ///
    /// # Errors
    /// Always: how it was lost.
    pub async fn lead(&self, leading: watch::Sender<Option<Timestamp>>) -> LeaseError {
        let mut lease = self.acquire().await;
        tracing::info!(identity = self.identity, "leading");
        leading.send_replace(Some(Timestamp::now()));
        let mut renewed = Instant::now();
        loop {
            tokio::time::sleep(RENEWS).await;
            let left = GIVES_UP.saturating_sub(renewed.elapsed());
            let error = match tokio::time::timeout(left, self.write(Some(&lease), &self.identity)).await {
                Ok(Ok(next)) => {
                    self.world.heard();
                    (lease, renewed) = (next, Instant::now());
                    continue;
                }
                Ok(Err(error)) => error,
                Err(_) => silent(),
            };
            // Somebody may have written it: the next try needs its newest version, and its holder.
            if let Ok(Ok(Some(found))) = tokio::time::timeout(left, self.api.get_opt(names::LEASE)).await {
                let holder = holder(&found).to_owned();
                if holder != self.identity {
                    leading.send_replace(None);
                    return LeaseError::TakenBy(holder);
                }
                lease = found;
            }
            if renewed.elapsed() >= GIVES_UP {
                leading.send_replace(None);
                return LeaseError::NotRenewed(error);
            }
        }
    }

    /// Gives the Lease up, so that another can take it at once. To be called when nothing is written any more.
    pub async fn release(&self) {
        if let Ok(Some(lease)) = self.api.get_opt(names::LEASE).await
            && holder(&lease) == self.identity
        {
            // Failing that, it runs out by itself.
            let _ = self.write(Some(&lease), "").await;
        }
    }

    async fn acquire(&self) -> Lease {
        // By our own clock: since when the Lease has stood as it stands.
        let mut standing: Option<(Option<String>, Instant)> = None;
        loop {
            // Bounded, or a silent API server would be waited for while what is known of it grows old.
            let found = tokio::time::timeout(GIVES_UP, self.api.get_opt(names::LEASE)).await;
            if matches!(found, Ok(Ok(_))) {
                self.world.heard();
            }
            let taken = match found.unwrap_or_else(|_| Err(silent())) {
                Ok(None) => self.write(None, &self.identity).await,
                Ok(Some(lease)) => {
                    let version = lease.metadata.resource_version.clone();
                    let since = match &standing {
                        Some((known, since)) if *known == version => *since,
                        _ => Instant::now(),
                    };
                    standing = Some((version, since));
                    let free = holder(&lease).is_empty() || holder(&lease) == self.identity || since.elapsed() >= HOLDS;
                    if !free {
                        tokio::time::sleep(RENEWS).await;
                        continue;
                    }
                    self.write(Some(&lease), &self.identity).await
                }
                Err(error) => Err(error),
            };
            match taken {
                Ok(lease) => return lease,
                Err(error) => tracing::warn!(error = %error, "failed to take the Lease, trying again"),
            }
            tokio::time::sleep(RENEWS).await;
        }
    }

    /// Writes the Lease, only if it is still as it was seen.
    async fn write(&self, seen: Option<&Lease>, holder: &str) -> Result<Lease, kube::Error> {
        let now = Some(MicroTime(Timestamp::now()));
        let before = seen.and_then(|lease| lease.spec.clone()).unwrap_or_default();
        let same = before.holder_identity.as_deref() == Some(holder);
        let spec = LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(i32::try_from(HOLDS.as_secs()).unwrap_or(15)),
            acquire_time: if same { before.acquire_time } else { now.clone() },
            lease_transitions: Some(before.lease_transitions.unwrap_or(0) + i32::from(!same)),
            renew_time: now,
            ..LeaseSpec::default()
        };
        // Labels and annotations are whoever's who made it.
        let metadata = match seen {
            Some(lease) => lease.metadata.clone(),
            None => ObjectMeta { name: Some(names::LEASE.into()), ..ObjectMeta::default() },
        };
        let lease = Lease { metadata, spec: Some(spec) };
        match seen {
            Some(_) => self.api.replace(names::LEASE, &PostParams::default(), &lease).await,
            None => self.api.create(&PostParams::default(), &lease).await,
        }
    }
}

fn silent() -> kube::Error {
    kube::Error::Service("no answer in time".into())
}

fn holder(lease: &Lease) -> &str {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}
