//! Events on the ConfigMaps of layers: what people see who ask `kubectl describe`.

use std::time::Duration;

use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
    jiff::Timestamp,
};
use kube::{Api, Client, api::PostParams};
use sha2::{Digest, Sha256};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};

use crate::names;

/// Events that wait to be written; more than that at once are left out. It is ten seconds' worth.
const WAITING: usize = 100;

/// The pause after each: ten a second are no load to an API server, and layers don't change as fast.
const PAUSE: Duration = Duration::from_millis(100);

/// How long one may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// The longest note that an Event takes, in bytes: the API server refuses one that is longer, and so the whole Event
/// (`NoteLengthLimit` of its validation of `events.k8s.io`).
const LONGEST_NOTE: usize = 1024;

/// What a note ends with that was cut.
const CUT: &str = "…";

/// A text as the note of an Event: at most 1 KiB, whole characters, with `…` at its end if there was more.
pub fn event_note(text: &str) -> String {
    if text.len() <= LONGEST_NOTE {
        return text.to_owned();
    }
    let kept = &text[..text.floor_char_boundary(LONGEST_NOTE - CUT.len())];
    format!("{kept}{CUT}")
}

/// Why an Event is written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Reason {
    /// The newest version of a layer can't be read.
    Invalid,
    /// There is no version of a bad layer that could be in force.
    LastGoodMissing,
    /// The last good version doesn't fit beside those of other layers.
    LastGoodTooLarge,
    /// A layer that was bad can be read again.
    Mended,
}

impl Reason {
    fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "LayerInvalid",
            Self::LastGoodMissing => "LastGoodMissing",
            Self::LastGoodTooLarge => "LastGoodTooLarge",
            Self::Mended => "LayerMended",
        }
    }
}

/// What a layer's ConfigMap is known by, as of one version of it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Subject {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) version: String,
}

/// Writes Events one after another, beside everything else. That one can't be written never matters: the log and the
/// metrics say the same.
#[derive(Clone, Debug)]
pub(super) struct Events(Option<mpsc::Sender<Event>>);

impl Events {
    pub(super) fn start(client: Client) -> Self {
        let (sender, mut waiting) = mpsc::channel::<Event>(WAITING);
        tokio::spawn(async move {
            while let Some(event) = waiting.recv().await {
                let namespace = event.metadata.namespace.clone().unwrap_or_default();
                let api: Api<Event> = Api::namespaced(client.clone(), &namespace);
                match timeout(PATIENCE, api.create(&PostParams::default(), &event)).await {
                    Ok(Ok(_)) => {}
                    // Another replica, or this one before its restart, has told it.
                    Ok(Err(kube::Error::Api(status))) if status.code == 409 => {}
                    Ok(Err(error)) => tracing::debug!(%error, "an Event can't be written"),
                    Err(_) => tracing::debug!("an Event can't be written: no answer"),
                }
                sleep(PAUSE).await;
            }
        });
        Self(Some(sender))
    }

    /// Writes none.
    pub(super) fn none() -> Self {
        Self(None)
    }

    /// Tells something about one version of a layer's ConfigMap; again tells it only once.
    pub(super) fn tell(&self, about: &Subject, reason: Reason, note: &str) {
        let Some(sender) = &self.0 else { return };
        if sender.try_send(event(about, reason, note, Timestamp::now())).is_err() {
            tracing::debug!("too many Events at once, one is left out");
        }
    }
}

fn event(about: &Subject, reason: Reason, note: &str, now: Timestamp) -> Event {
    let Subject { namespace, name, uid, version } = about.clone();
    // The same for every replica, so that the API server takes the first and refuses the rest.
    let sum = Sha256::digest(format!("{uid} {version} {}", reason.as_str()));
    let sum: String = sum.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let short: String = name.chars().take(200).collect();
    Event {
        metadata: ObjectMeta {
            namespace: Some(namespace.clone()),
            name: Some(format!("{}.{sum}", short.trim_end_matches(['.', '-']))),
            ..ObjectMeta::default()
        },
        event_time: Some(MicroTime(now)),
        action: Some("Reading".into()),
        reason: Some(reason.as_str().into()),
        note: Some(event_note(note)),
        type_: Some(if reason == Reason::Mended { "Normal" } else { "Warning" }.into()),
        reporting_controller: Some(names::EVENT_REPORTER.into()),
        reporting_instance: Some(names::EVENT_REPORTER.into()),
        regarding: Some(ObjectReference {
            api_version: Some("v1".into()),
            kind: Some("ConfigMap".into()),
            namespace: Some(namespace),
            name: Some(name),
            uid: Some(uid),
            resource_version: Some(version),
            field_path: None,
        }),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_that_is_too_long_is_cut_between_characters_and_says_so() {
        for fits in ["", "short", &"x".repeat(1024), &"é".repeat(512)] {
            assert_eq!(event_note(fits), fits);
        }
        for long in ["x".repeat(1025), "é".repeat(513), format!("x{}", "é".repeat(900)), "😀".repeat(400)] {
            let note = event_note(&long);
            assert!((1021..=1024).contains(&note.len()), "{} bytes", note.len());
            let kept = note.strip_suffix('…').unwrap();
            assert!(long.starts_with(kept) && long.len() > kept.len());
        }
    }

    #[test]
    fn replicas_make_the_same_event_of_one_version_and_another_of_the_next() {
        let about = |version: &str| Subject {
            namespace: "podlayer".into(),
            name: format!("{}.x", "n".repeat(199)),
            uid: "u".into(),
            version: version.into(),
        };
        let name = |version: &str, reason| {
            let event = event(&about(version), reason, &"é".repeat(1000), Timestamp::now());
            assert!(event.note.unwrap().ends_with('…'));
            event.metadata.name.unwrap()
        };
        assert_eq!(name("1", Reason::Invalid), name("1", Reason::Invalid));
        assert_ne!(name("1", Reason::Invalid), name("2", Reason::Invalid));
        assert_ne!(name("1", Reason::Invalid), name("1", Reason::LastGoodMissing));
        assert!(!name("1", Reason::Invalid).contains(".."), "a name that the API server takes");
    }
}
