//! What the CA Secret holds: the CA that signs, the one that is to follow, and those whose leaves are still about.

use std::collections::BTreeMap;

use time::OffsetDateTime;

use super::authority::{Ca, Certificate, ReadError};

/// How many earlier CAs stay at most. One is the rule; more come together only when a Secret is lost again and again, or
/// when the clocks of replicas are at odds, and then the bundle must not grow without end.
const MOST_PREVIOUS: usize = 8;

const PREVIOUS: &str = "previous.crt";
const UNTIL: &str = "previous.until";

/// The content of the CA Secret. What it holds is trusted, all of it: the union of its certificates is the `caBundle` of
/// every entry of the webhook configurations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bundle {
    /// The CA that signs what is served: `current.crt` and `current.key`.
    pub current: Option<Ca>,
    /// The one that takes its place once everybody trusts it: `next.crt` and `next.key`.
    pub next: Option<Ca>,
    /// Those whose last leaves may still be served, the one replaced last first: `previous.crt`. Nobody signs with them
    /// any more, so their keys are gone.
    pub previous: Vec<Certificate>,
    /// Until when they stay, in whole seconds since 1970: `previous.until`.
    pub until: Option<OffsetDateTime>,
}

/// What is wrong with a part of the CA Secret. The part counts as absent.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// A CA can't be used.
    #[error("{slot}.crt and {slot}.key are no CA")]
    Ca {
        /// Which: `current` or `next`.
        slot: &'static str,
        /// Why.
        #[source]
        source: ReadError,
    },
    /// One of the two halves of a CA is missing.
    #[error("there is {present} without {missing}")]
    Half {
        /// The key that is there.
        present: String,
        /// The key that isn't.
        missing: String,
    },
    /// The certificates of earlier CAs can't be read.
    #[error("{PREVIOUS} is no list of certificates")]
    Previous,
    /// The time can't be read.
    #[error("{UNTIL} is no number of seconds since 1970")]
    Until,
}

impl Bundle {
    /// Reads the data of the Secret: what can be used, and what is wrong with the rest.
    pub fn parse(data: &BTreeMap<String, Vec<u8>>) -> (Self, Vec<Fault>) {
        let mut faults = Vec::new();
        let mut ca = |slot| {
            ca_in(data, slot).unwrap_or_else(|fault| {
                faults.push(fault);
                None
            })
        };
        let (current, next) = (ca("current"), ca("next"));
        let mut bundle = Self { current, next, ..Self::default() };
        if let Some(text) = data.get(PREVIOUS) {
            bundle.previous = Certificate::all_in(text);
            if bundle.previous_pem().as_bytes() != text {
                faults.push(Fault::Previous);
            }
            let until = data.get(UNTIL).and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
            bundle.until = until.and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok());
            if bundle.until.is_none() && !bundle.previous.is_empty() {
                faults.push(Fault::Until);
            }
        }
        (bundle, faults)
    }

    /// The data of the Secret. A key with `None` is to be removed; what else the Secret holds isn't podlayer's.
    pub fn data(&self) -> [(&'static str, Option<Vec<u8>>); 6] {
        let certificate = |ca: &Option<Ca>| ca.as_ref().map(|ca| ca.certificate().pem().into_bytes());
        let key = |ca: &Option<Ca>| ca.as_ref().map(|ca| ca.key().as_bytes().to_vec());
        let any = !self.previous.is_empty();
        let until = self.until.map(|until| until.unix_timestamp().to_string().into_bytes());
        [
            ("current.crt", certificate(&self.current)),
            ("current.key", key(&self.current)),
            ("next.crt", certificate(&self.next)),
            ("next.key", key(&self.next)),
            (PREVIOUS, any.then(|| self.previous_pem().into_bytes())),
            (UNTIL, until.filter(|_| any)),
        ]
    }

    /// Every certificate in it, each once, in the one order that all replicas find.
    pub fn certificates(&self) -> Vec<&Certificate> {
        let authorities = [&self.current, &self.next].into_iter().flatten().map(Ca::certificate);
        let mut all: Vec<&Certificate> = authorities.collect();
        for certificate in &self.previous {
            if !all.contains(&certificate) {
                all.push(certificate);
            }
        }
        all
    }

    /// The union of its certificates: the `caBundle`. It follows from the Secret alone and from nobody's clock, so that
    /// replicas never undo each other's work.
    pub fn union_pem(&self) -> String {
        self.certificates().into_iter().map(Certificate::pem).collect()
    }

    /// With this CA as the next one.
    pub fn with_next(mut self, ca: Ca) -> Self {
        self.next = Some(ca);
        self
    }

    /// With the next CA as the current one, and the one before among the earlier ones until then.
    pub fn promoted(mut self, until: OffsetDateTime) -> Self {
        if let Some(next) = self.next.take()
            && let Some(before) = self.current.replace(next)
        {
            let before = before.certificate().clone();
            self.previous.retain(|found| *found != before);
            self.previous.insert(0, before);
            self.previous.truncate(MOST_PREVIOUS);
            self.stay_until(until);
        }
        self
    }

    /// With these among the earlier ones until then, as far as they aren't in it and there is room. The same if there is
    /// nothing to add, or each look would find something to write.
    pub fn keeping(mut self, more: Vec<Certificate>, until: OffsetDateTime) -> Self {
        let before = self.previous.len();
        for certificate in more {
            if self.previous.len() < MOST_PREVIOUS && !self.certificates().contains(&&certificate) {
                self.previous.push(certificate);
            }
        }
        if self.previous.len() > before || (before > 0 && self.until.is_none()) {
            self.stay_until(until);
        }
        self
    }

    /// Without the earlier CAs for which `stays` isn't so.
    pub fn retaining(mut self, stays: impl Fn(&Certificate) -> bool) -> Self {
        self.previous.retain(stays);
        if self.previous.is_empty() {
            self.until = None;
        }
        self
    }

    fn stay_until(&mut self, until: OffsetDateTime) {
        self.until = self.until.max(Some(until.replace_nanosecond(0).unwrap_or(until)));
    }

    fn previous_pem(&self) -> String {
        self.previous.iter().map(Certificate::pem).collect()
    }
}

fn ca_in(data: &BTreeMap<String, Vec<u8>>, slot: &'static str) -> Result<Option<Ca>, Fault> {
    let names = [format!("{slot}.crt"), format!("{slot}.key")];
    match (data.get(&names[0]), data.get(&names[1])) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => {
            Ca::from_pem(certificate, key).map(Some).map_err(|source| Fault::Ca { slot, source })
        }
        (certificate, _) => {
            let [certificate_name, key_name] = names;
            let (present, missing) =
                if certificate.is_some() { (certificate_name, key_name) } else { (key_name, certificate_name) };
            Err(Fault::Half { present, missing })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::certs::authority::Window;
    use crate::telemetry::log::with_causes;

    fn ca() -> Ca {
        let now = OffsetDateTime::now_utc();
        Ca::create(Window { from: now, to: now + Duration::from_secs(3600) }).unwrap()
    }

    fn full() -> Bundle {
        let until = OffsetDateTime::from_unix_timestamp(2_000_000_000).unwrap();
        let old = vec![ca().certificate().clone(), ca().certificate().clone()];
        let whole = Bundle { current: Some(ca()), next: Some(ca()), ..Bundle::default() };
        whole.keeping(old, until)
    }

    fn data(bundle: &Bundle) -> BTreeMap<String, Vec<u8>> {
        bundle.data().into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
    }

    #[test]
    fn what_was_written_is_read() {
        for bundle in [Bundle::default(), full(), Bundle { next: None, ..full() }] {
            let (read, faults) = Bundle::parse(&data(&bundle));
            assert_eq!(read, bundle);
            assert!(faults.is_empty(), "{faults:?}");
        }
    }

    #[test]
    fn a_bad_part_is_named_and_the_rest_is_used() {
        let whole = full();
        let good = data(&whole);
        let other = data(&full());
        let cases: [(&str, Option<&[u8]>, &str); 9] = [
            ("current.crt", None, "there is current.key without current.crt"),
            ("next.key", None, "there is next.crt without next.key"),
            (
                "current.crt",
                Some(b""),
                "current.crt and current.key are no CA: the certificate has no block \"BEGIN CERTIFICATE\"",
            ),
            (
                "next.key",
                Some(b"\xFF\xFE"),
                "next.crt and next.key are no CA: the key has no block \"BEGIN PRIVATE KEY\"",
            ),
            (
                "current.key",
                Some(&other["current.key"]),
                "current.crt and current.key are no CA: the key doesn't belong to the certificate",
            ),
            ("previous.crt", Some(b"nothing"), "previous.crt is no list of certificates"),
            ("previous.crt", Some(&good["previous.crt"][..700]), "previous.crt is no list of certificates"),
            ("previous.until", Some(b"tomorrow"), "previous.until is no number of seconds since 1970"),
            ("previous.until", None, "previous.until is no number of seconds since 1970"),
        ];
        for (key, value, want) in cases {
            let mut bad = good.clone();
            bad.remove(key);
            bad.extend(value.map(|value| (key.to_owned(), value.to_vec())));
            let (read, faults) = Bundle::parse(&bad);
            assert_eq!(faults.iter().map(|fault| with_causes(fault)).collect::<Vec<_>>(), [want]);
            assert_eq!(read.current.is_some(), !key.starts_with("current"), "{want}");
            assert_eq!(read.next.is_some(), !key.starts_with("next"), "{want}");
        }
    }

    #[test]
    fn no_change_of_a_byte_is_a_panic() {
        let good = data(&full());
        for (key, value) in &good {
            for at in (0..value.len()).step_by(7) {
                let mut bad = good.clone();
                bad.get_mut(key).unwrap()[at] ^= 0x11;
                let _ = Bundle::parse(&bad);
            }
        }
    }

    #[test]
    fn a_promotion_keeps_every_certificate_and_drops_the_key_of_the_one_before() {
        let before = full();
        let until = before.until.unwrap() + Duration::from_secs(9);
        let after = before.clone().promoted(until);
        assert_eq!(after.current, before.next);
        assert_eq!((after.next.is_none(), after.previous.len(), after.until), (true, 3, Some(until)));
        assert!(before.certificates().iter().all(|certificate| after.certificates().contains(certificate)));
        let key = before.current.unwrap().key().as_bytes().to_vec();
        assert!(data(&after).values().all(|value| *value != key));
    }

    #[test]
    fn earlier_cas_are_bounded_and_those_replaced_last_stay() {
        let now = OffsetDateTime::now_utc().replace_nanosecond(0).unwrap();
        let all: Vec<Ca> = (0..10).map(|_| ca()).collect();
        let mut bundle = Bundle::default();
        for ca in &all {
            bundle = bundle.with_next(ca.clone()).promoted(now);
        }
        let last: Vec<&Certificate> = all.iter().rev().map(Ca::certificate).take(MOST_PREVIOUS + 1).collect();
        assert_eq!(bundle.certificates(), last);
        let more = vec![all[0].certificate().clone()];
        assert_eq!(bundle.clone().keeping(more, now + Duration::from_secs(9)), bundle, "no end of writing");
    }

    #[test]
    fn a_ca_that_somebody_wrote_among_the_earlier_ones_stays_long_enough_when_it_is_replaced() {
        let now = OffsetDateTime::now_utc().replace_nanosecond(0).unwrap();
        let current = ca();
        let previous = vec![current.certificate().clone()];
        let bundle = Bundle { current: Some(current), next: Some(ca()), previous: previous.clone(), until: Some(now) };
        let later = now + Duration::from_secs(9);
        let promoted = bundle.promoted(later);
        assert_eq!((promoted.previous, promoted.until), (previous, Some(later)));
    }
}
