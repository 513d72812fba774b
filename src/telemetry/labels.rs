//! The values that labels of metrics may take: all of them known when podlayer is built, so that no request can add a
//! time series.

use std::fmt::Write;

use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};

use crate::names::{PATH_MUTATE, PATH_VALIDATE};

/// Makes an enum whose variants are the values of one label.
macro_rules! label {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident => $text:expr,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
        }

        impl $name {
            /// Every value, in the order in which they are declared.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The value as it stands in the metrics.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }
        }

        impl EncodeLabelValue for $name {
            fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> std::fmt::Result {
                encoder.write_str(self.as_str())
            }
        }
    };
}

label! {
    /// How a call of Azure Pipelines ended.
    AzureOutcome {
        /// An agent is coming.
        Accepted => "accepted",
        /// 400.
        BadRequest => "bad_request",
        /// No agent: the pool is at its max.
        DeclinedMax => "declined_max",
        /// No agent: the pool is paused.
        DeclinedPaused => "declined_paused",
        /// No agent: a quota is used up.
        DeclinedQuota => "declined_quota",
        /// No agent: the cluster refused its pod.
        DeclinedRefused => "declined_refused",
        /// No agent: it was released or ended before.
        DeclinedReleased => "declined_released",
        /// 403.
        Forbidden => "forbidden",
        /// 429.
        Overload => "overload",
        /// The agent may go, or is gone.
        Released => "released",
        /// What was asked for.
        Told => "told",
        /// 503.
        Unavailable => "unavailable",
        /// There is no such agent or definition.
        Unknown => "unknown",
    }
}

label! {
    /// Which call of Azure Pipelines.
    AzureRoute {
        /// For an agent.
        Acquire => "acquire",
        /// For the agents that there can be.
        Definitions => "definitions",
        /// For how many there can be.
        Parallelism => "parallelism",
        /// That an agent may go.
        Release => "release",
        /// For how an agent is.
        Status => "status",
    }
}

label! {
    /// What was done about an agent of Azure Pipelines without being asked.
    AzureReaped {
        /// It ended at once.
        Ended => "ended",
        /// An image of its that isn't there.
        Image => "image",
        /// It was released before its pod was made.
        Late => "late",
        /// It took too long to start.
        Timeout => "timeout",
        /// No node has room for it.
        Unschedulable => "unschedulable",
    }
}

label! {
    /// Which certificate an expiry belongs to.
    CertificateUse {
        /// The CA that signs what the webhook serves.
        Ca => "ca",
        /// What the webhook serves.
        Serving => "serving",
    }
}

label! {
    /// How the decision about one pod, Job or ConfigMap ended.
    Decision {
        /// Refused, with a text for its author.
        Denied => "denied",
        /// Let through with a stamp only, because podlayer itself went wrong.
        Failed => "failed",
        /// Changed by at least one layer.
        Patched => "patched",
        /// Not for podlayer: not opted in, or another operation.
        Skipped => "skipped",
        /// Opted in, and no layer changed its spec.
        Unchanged => "unchanged",
    }
}

label! {
    /// Why the last good version of a layer isn't kept across restarts.
    KeepFailure {
        /// The ConfigMap for it isn't there.
        Absent => "absent",
        /// What stands in the ConfigMap isn't what was written there.
        Damaged => "damaged",
        /// podlayer lacks the right to read or write the ConfigMap.
        Forbidden => "forbidden",
        /// It can't be read by this version of podlayer.
        Incompatible => "incompatible",
        /// It doesn't fit beside the others.
        TooLarge => "too_large",
        /// The API server couldn't be reached, or refused.
        Unreachable => "unreachable",
    }
}

label! {
    /// Where a last good version is kept.
    KeptIn {
        /// In the ConfigMap that all replicas share: it survives a restart.
        ConfigMap => "config_map",
        /// In this process only.
        Memory => "memory",
    }
}

label! {
    /// What state a layer is in.
    LayerState {
        /// It can't be used and never could.
        Bad => "bad",
        /// Its newest version is in force.
        Good => "good",
        /// Its newest version is bad; the last good one is in force.
        Stale => "stale",
    }
}

label! {
    /// How a request ended.
    Outcome {
        /// The caller was gone before the answer: its deadline passed, or it died.
        Abandoned => "abandoned",
        /// A status below 400. A denied pod is one too: the denial stands in the answer.
        Answered => "answered",
        /// A status of 500 and above.
        Failed => "failed",
        /// A status of 400 to 499.
        Refused => "refused",
    }
}

label! {
    /// Why a connection or a request was turned away before any handler saw it.
    Reason {
        /// The listening socket couldn't hand over a connection, mostly for want of file descriptors.
        Accept => "accept",
        /// A body that didn't come in time.
        BodyTimeout => "body_timeout",
        /// A call that wasn't over in time, by far; the caller had long given up.
        CallTimeout => "call_timeout",
        /// Too many connections, in all or from one source.
        Connections => "connections",
        /// A call that couldn't be answered within the time that its caller allowed.
        Deadline => "deadline",
        /// A TLS handshake that failed.
        Handshake => "handshake",
        /// A TLS handshake that didn't end in time.
        HandshakeTimeout => "handshake_timeout",
        /// A request head that didn't come in time.
        HeadTimeout => "head_timeout",
        /// Too many calls, or too many bytes of them, at once.
        Overload => "overload",
        /// A body over the limit.
        TooLarge => "too_large",
    }
}

label! {
    /// How one look for a newer certificate ended; a look that finds nothing new isn't counted.
    Reload {
        /// A new pair is served.
        Changed => "changed",
        /// What was found can't be used; the pair before is served.
        Failed => "failed",
    }
}

label! {
    /// Where a request went.
    RequestPath {
        /// The mutating webhook.
        Mutate => PATH_MUTATE,
        /// Anywhere else.
        Other => "other",
        /// The validating webhook.
        Validate => PATH_VALIDATE,
    }
}

impl RequestPath {
    /// Sorts the path of a request, without its query.
    pub fn of(path: &str) -> Self {
        match path {
            PATH_MUTATE => Self::Mutate,
            PATH_VALIDATE => Self::Validate,
            _ => Self::Other,
        }
    }
}

impl Outcome {
    /// Sorts the status of an answer.
    pub fn of(status: u16) -> Self {
        match status {
            ..400 => Self::Answered,
            400..500 => Self::Refused,
            500.. => Self::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_nobody_serves_adds_no_series() {
        assert_eq!(RequestPath::of("/mutate"), RequestPath::Mutate);
        assert_eq!(RequestPath::of("/mutate/../../etc"), RequestPath::Other);
    }

    #[test]
    fn statuses_fall_into_three_outcomes() {
        let outcomes = [200, 307, 404, 429, 500, 503].map(Outcome::of);
        let want = [
            Outcome::Answered,
            Outcome::Answered,
            Outcome::Refused,
            Outcome::Refused,
            Outcome::Failed,
            Outcome::Failed,
        ];
        assert_eq!(outcomes, want);
    }
}
