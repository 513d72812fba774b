use serde::Serialize;

/// Something that somebody should know about an installation.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Finding {
    /// Which of the things that are looked for.
    pub code: Code,
    /// How bad it is.
    pub severity: Severity,
    /// What was found, in one line.
    pub text: String,
    /// The command that mends it, or that shows what to mend.
    pub fix: String,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Pods don't get what they should, or soon won't.
    Error,
    /// It works, but not as it should, or not for all.
    Warning,
    /// Nothing is wrong; something is different or couldn't be looked at.
    Info,
}

impl Severity {
    /// As it is printed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Info => "info",
            Self::Warning => "warning",
        }
    }
}

/// Makes the codes with their words, severities and meanings.
macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident => $word:literal, $severity:ident;)+) => {
        /// What is looked for.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Code {
            $($(#[$doc])* $variant,)+
        }

        /// Every code with its word and severity.
        pub const TABLE: &[(Code, &str, Severity)] = &[$((Code::$variant, $word, Severity::$severity),)+];
    };
}

codes! {
    /// podlayer only decides and tells, by its own flag.
    AuditMode => "audit-mode", Info;
    /// The CA bundle of an entry has expired.
    CaExpired => "ca-expired", Error;
    /// The CA bundle of an entry ends soon.
    CaExpiresSoon => "ca-expires-soon", Warning;
    /// An entry has no CA bundle.
    CaMissing => "ca-missing", Error;
    /// The CA bundle of an entry isn't PEM.
    CaUnreadable => "ca-unreadable", Error;
    /// What a replica serves ends soon, or has ended.
    CertificateExpiresSoon => "certificate-expires-soon", Error;
    /// There is no mutating webhook configuration.
    ConfigurationMissing => "configuration-missing", Error;
    /// The mutating webhook configuration has no entry for pods.
    EntryMissing => "entry-missing", Error;
    /// A Job has no pods because podlayer refuses them.
    JobRefused => "job-refused", Warning;
    /// A layer is not in force at all.
    LayerBad => "layer-bad", Error;
    /// An expected layer isn't there.
    LayerMissing => "layer-missing", Error;
    /// A layer is in force in an older version.
    LayerStale => "layer-stale", Warning;
    /// podlayer runs among pods that it should change.
    NamespaceShared => "namespace-shared", Warning;
    /// What matters most couldn't be looked at.
    NotAllowed => "not-allowed", Warning;
    /// Something couldn't be looked at.
    NotChecked => "not-checked", Info;
    /// An entry asks podlayer about pods that aren't opted in.
    NotOptedIn => "not-opted-in", Warning;
    /// An opted-in pod was made without podlayer.
    PodUnstamped => "pod-unstamped", Warning;
    /// The API server refuses a pod because of podlayer, or can't reach it.
    ProbeRefused => "probe-refused", Error;
    /// The API server makes an opted-in pod without podlayer.
    ProbeUnstamped => "probe-unstamped", Error;
    /// The pods that podlayer is asked about don't include those of the probe's namespace.
    ProbeOutside => "probe-outside", Info;
    /// A pod of podlayer's names Secrets for its images that aren't there.
    PullSecretMissing => "pull-secret-missing", Warning;
    /// There is one replica only.
    ReplicaAlone => "replica-alone", Warning;
    /// No replica is ready.
    ReplicasMissing => "replicas-missing", Error;
    /// A replica isn't ready.
    ReplicaUnready => "replica-unready", Warning;
    /// An entry asks podlayer about pods without which it, or the cluster, can't start.
    SelectorWide => "selector-wide", Warning;
    /// The Service that an entry names isn't there.
    ServiceMissing => "service-missing", Error;
    /// Replicas have different layers in force.
    SnapshotsDiffer => "snapshots-differ", Warning;
    /// There is no validating webhook configuration.
    ValidationMissing => "validation-missing", Warning;
    /// Replicas are of different versions.
    VersionsDiffer => "versions-differ", Warning;
}

impl Code {
    /// As it is printed.
    pub fn as_str(self) -> &'static str {
        TABLE.iter().find(|(code, ..)| *code == self).map_or("", |(_, word, _)| word)
    }

    /// How bad it is.
    pub fn severity(self) -> Severity {
        TABLE.iter().find(|(code, ..)| *code == self).map_or(Severity::Error, |(.., severity)| *severity)
    }

    /// A finding of this code.
    pub(super) fn found(self, text: impl Into<String>, fix: impl Into<String>) -> Finding {
        Finding { code: self, severity: self.severity(), text: text.into(), fix: fix.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_printed_as_they_are_serialised_and_documented() {
        let page = include_str!("../../docs/troubleshooting.md");
        for (code, word, severity) in TABLE {
            assert_eq!(serde_json::to_string(code).unwrap(), format!("\"{word}\""));
            let row = format!("| `{word}` | {} |", severity.as_str());
            assert!(page.contains(&row), "docs/troubleshooting.md lacks the row {row}");
        }
        let rows = page.lines().filter(|line| line.starts_with("| `")).count();
        assert_eq!(rows, TABLE.len(), "docs/troubleshooting.md has rows of codes that are gone");
    }
}
