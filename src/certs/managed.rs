//! Certificates that podlayer looks after itself: a CA in a Secret, a leaf in the memory of each replica.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::Client;
use time::OffsetDateTime;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::authority::{self, Ca, MakeError};
use super::bundle::{Bundle, Fault};
use super::lifetimes::Lifetimes;
use super::plan::{Now, Plan, Replica, Seen, Write};
use super::serving::{Pair, PairError, Serving};
use crate::cluster::{
    ConfigurationError, HeldConfiguration, HeldSecret, NamedSecret, SecretError, WebhookConfiguration, Written,
};
use crate::telemetry::{CertificateUse, Metrics, Reload, log::with_causes};

/// How often the Secret and the webhook configurations are looked at: three small reads by name. Whoever empties a
/// `caBundle` stops every call until the next look.
pub const POLL_INTERVAL: Duration = Duration::from_secs(10);

/// The pause while this replica isn't trusted yet or a configuration isn't right: an installation waits for it.
const HURRY: Duration = Duration::from_secs(1);
/// An answer takes milliseconds; an API server that takes longer is asked again at the next look.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many looks follow each other without a pause: a whole installation takes five steps.
const MOST_STEPS: usize = 10;

/// The objects that hold the CA and that trust it.
#[derive(Clone, Debug)]
pub struct ObjectNames {
    /// podlayer's own namespace.
    pub namespace: String,
    /// The Secret in it that holds the CA.
    pub secret: String,
    /// The mutating webhook configuration.
    pub mutating: String,
    /// The validating one.
    pub validating: String,
}

/// One replica's certificate, and its share in looking after the CA.
#[derive(Debug)]
pub struct Managed {
    secret: NamedSecret,
    configurations: [WebhookConfiguration; 2],
    names: Vec<String>,
    replica: Replica,
    poll: Duration,
    started: Instant,
    /// The Secret as it was read last, by its version: reading keys costs more than comparing a number.
    parsed: (String, Bundle, Vec<Fault>),
    serving: Arc<Serving>,
    trusted: watch::Sender<bool>,
    /// What the last look found wrong, if it did.
    complaint: Option<String>,
    metrics: Metrics,
}

/// Why a look came to nothing.
#[derive(Debug, thiserror::Error)]
enum LookError {
    #[error("there is no {0}, so nobody trusts this CA yet")]
    Absent(String),
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    #[error("failed to make a CA")]
    Make(#[from] MakeError),
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error(transparent)]
    Sign(#[from] SignError),
    #[error("the API server didn't answer for {} s", PATIENCE.as_secs())]
    Silence,
}

/// Why there is no new leaf.
#[derive(Debug, thiserror::Error)]
enum SignError {
    #[error("failed to sign a certificate")]
    Make(#[from] MakeError),
    #[error("the certificate that was just signed can't be served")]
    Pair(#[from] PairError),
}

/// What was read of the cluster.
struct Found {
    configurations: Vec<Option<HeldConfiguration>>,
    secret: HeldSecret,
}

/// What comes after a look.
enum Then {
    /// Something was done: look again.
    Again,
    /// Nothing is left to do but to wait.
    Rest(Duration),
}

impl Managed {
    /// A replica that is reached under these DNS names. It does nothing before [`Managed::run`].
    ///
    /// # Errors
    /// [`MakeError::Name`] and [`MakeError::Nameless`]: at once, and not when the CA is there.
    pub fn new(
        client: &Client,
        objects: &ObjectNames,
        dns_names: Vec<String>,
        lifetimes: Lifetimes,
        poll: Duration,
        metrics: Metrics,
    ) -> Result<Self, MakeError> {
        authority::alternative_names(&dns_names, &[])?;
        metrics.bundle_in_sync(false);
        Ok(Self {
            secret: NamedSecret::new(client, &objects.namespace, &objects.secret),
            configurations: [
                WebhookConfiguration::mutating(client, &objects.mutating),
                WebhookConfiguration::validating(client, &objects.validating),
            ],
            names: dns_names,
            replica: Replica::new(lifetimes),
            poll,
            started: Instant::now(),
            parsed: (String::new(), Bundle::default(), Vec::new()),
            serving: Serving::empty(metrics.clone()),
            trusted: watch::Sender::new(false),
            complaint: None,
            metrics,
        })
    }

    /// What is served: nothing until the CA is in the webhook configurations.
    pub fn serving(&self) -> Arc<Serving> {
        Arc::clone(&self.serving)
    }

    /// Whether every webhook configuration is there and trusts what is served, as of the last look that was answered.
    pub fn trusted(&self) -> watch::Receiver<bool> {
        self.trusted.subscribe()
    }

    /// Looks after all of it until the future is dropped.
    pub async fn run(mut self) -> ! {
        loop {
            let pause = self.steps().await;
            sleep(pause).await;
        }
    }

    /// Looks and acts until nothing is left to do; says how long to wait then.
    async fn steps(&mut self) -> Duration {
        for _ in 0..MOST_STEPS {
            // What is cut short here is a request, whose outcome the next look finds.
            match timeout(PATIENCE, self.step()).await.unwrap_or(Err(LookError::Silence)) {
                Ok(Then::Again) => {}
                Ok(Then::Rest(pause)) => return pause,
                Err(error) => {
                    self.complain(&error);
                    if let Some(ca) = self.replica.renewal(self.now())
                        && let Err(error) = self.sign(&ca)
                    {
                        self.complain(&error);
                    }
                    break;
                }
            }
        }
        self.poll.min(HURRY)
    }

    async fn step(&mut self) -> Result<Then, LookError> {
        let found = self.look().await?;
        let plan = self.plan(&found);
        let mut failed = None;
        match self.act(&found, plan, &mut failed).await {
            Then::Again => Ok(Then::Again),
            Then::Rest(pause) => failed.map_or(Ok(Then::Rest(pause)), Err),
        }
    }

    /// The configurations first: see [`Seen`].
    async fn look(&self) -> Result<Found, LookError> {
        let mut configurations = Vec::new();
        for configuration in &self.configurations {
            configurations.push(configuration.read().await?);
        }
        Ok(Found { configurations, secret: self.secret.read().await? })
    }

    fn plan(&mut self, found: &Found) -> Plan {
        let version = found.secret.version();
        if self.parsed.0 != version {
            let (bundle, faults) = Bundle::parse(&found.secret.data());
            for fault in &faults {
                tracing::warn!(
                    problem = with_causes(fault),
                    "a part of the CA Secret can't be used, it counts as absent"
                );
            }
            if let Some(current) = &bundle.current {
                self.metrics.certificate_expires(CertificateUse::Ca, current.certificate().not_after.unix_timestamp());
            }
            self.parsed = (version, bundle, faults);
        }
        let configurations: Vec<Option<Vec<Vec<u8>>>> =
            found.configurations.iter().map(|held| held.as_ref().map(HeldConfiguration::bundles)).collect();
        let now = self.now();
        let (_, bundle, faults) = &self.parsed;
        self.replica.plan(&Seen { bundle, faults, configurations: &configurations }, now)
    }

    /// Does what is planned; a part that fails doesn't keep the others from being done.
    async fn act(&mut self, found: &Found, plan: Plan, failed: &mut Option<LookError>) -> Then {
        let mut done = false;
        if let Some(ca) = plan.sign {
            match self.sign(&ca) {
                Ok(()) => done = true,
                Err(error) => *failed = Some(error.into()),
            }
        }
        if let Some(write) = plan.write {
            match self.write(&found.secret, write).await {
                Ok(()) => return Then::Again,
                Err(error) => *failed = Some(error),
            }
        }
        let union = self.parsed.1.union_pem();
        for place in plan.publish {
            let (configuration, held) = (&self.configurations[place], &found.configurations[place]);
            let Some(held) = held else { continue };
            match configuration.publish(held, &union).await {
                Ok(Written::Done) => {
                    tracing::info!(configuration = configuration.title(), "caBundle written");
                    done = true;
                }
                Ok(Written::Outdated) => done = true,
                Err(error) => *failed = Some(error.into()),
            }
        }
        if done {
            return Then::Again;
        }
        self.metrics.bundle_in_sync(plan.in_sync);
        match (self.trusted.send_replace(plan.trusted), plan.trusted) {
            (false, true) => tracing::info!("the webhook configurations trust the certificate"),
            (true, false) => tracing::warn!("the webhook configurations don't trust the certificate any more"),
            _ => {}
        }
        let absent = self.configurations.iter().zip(&found.configurations).find(|(_, held)| held.is_none());
        if let (None, Some((configuration, _))) = (&failed, absent) {
            *failed = Some(LookError::Absent(configuration.title()));
        }
        if failed.is_none() && self.complaint.take().is_some() {
            tracing::info!("the CA and the webhook configurations can be looked after again");
        }
        Then::Rest(if plan.trusted && plan.in_sync { self.poll } else { self.poll.min(HURRY) })
    }

    async fn write(&mut self, held: &HeldSecret, write: Write) -> Result<(), LookError> {
        let now = self.now();
        let purpose = write.purpose();
        let creates = matches!(write, Write::Create(_));
        let bundle = write.bundle(|| Ca::create(self.replica.ca_window(now.wall)))?;
        match self.secret.write(held, bundle.data()).await? {
            Written::Done => {
                tracing::info!(purpose, "CA Secret written");
                if creates {
                    self.replica.created(now);
                }
            }
            Written::Outdated => tracing::debug!(purpose, "another replica wrote the CA Secret first"),
        }
        Ok(())
    }

    /// Signs a new leaf and serves it.
    fn sign(&mut self, ca: &Ca) -> Result<(), SignError> {
        let window = self.replica.leaf_window(ca, self.now().wall);
        let leaf = ca.leaf(&self.names, &[], window)?;
        self.serving.replace(Pair::from_pem(leaf.certificate.as_bytes(), leaf.key.as_bytes())?);
        self.replica.signed(ca.clone(), window);
        self.metrics.reloaded(Reload::Changed);
        tracing::info!(not_after = %window.to, ca_not_after = %ca.certificate().not_after, "new certificate");
        Ok(())
    }

    fn now(&self) -> Now {
        Now { wall: OffsetDateTime::now_utc(), steady: self.started.elapsed() }
    }

    /// Counted at each look, told once: it may last for hours.
    fn complain(&mut self, error: &dyn Error) {
        self.metrics.reloaded(Reload::Failed);
        let complaint = with_causes(error);
        if self.complaint.as_ref() != Some(&complaint) {
            tracing::warn!(
                error = complaint,
                "the CA or a webhook configuration can't be looked after; what is served stays"
            );
            self.complaint = Some(complaint);
        }
    }
}
