//! What podlayer reads out of a certificate: when it holds, and whose it is.

use rustls::pki_types::CertificateDer;
use time::{Date, Month, OffsetDateTime, Time};

/// The few fields of a certificate that podlayer asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fields<'a> {
    /// The first moment at which it holds.
    pub not_before: OffsetDateTime,
    /// The last moment at which it holds.
    pub not_after: OffsetDateTime,
    /// The DER of its subject.
    pub subject: &'a [u8],
}

/// The `notAfter` of a certificate; `None` when its DER isn't that of a certificate.
pub fn not_after(certificate: &CertificateDer<'_>) -> Option<OffsetDateTime> {
    fields(certificate).map(|fields| fields.not_after)
}

/// The fields of a certificate; `None` when its DER isn't that of a certificate.
///
/// The fields up to the subject stand in a fixed order (RFC 5280 section 4.1), so a few steps find them; a whole X.509
/// parser would be a dependency of ten crates for these three.
pub fn fields<'a>(certificate: &'a CertificateDer<'_>) -> Option<Fields<'a>> {
    let (certificate, _) = take(certificate, SEQUENCE)?;
    let (signed, _) = take(certificate, SEQUENCE)?;
    // The version, which certificates of version 1 leave out.
    let signed = take(signed, VERSION).map_or(signed, |(_, rest)| rest);
    let (_serial, rest) = take(signed, INTEGER)?;
    let (_algorithm, rest) = take(rest, SEQUENCE)?;
    let (_issuer, rest) = take(rest, SEQUENCE)?;
    let (validity, rest) = take(rest, SEQUENCE)?;
    let (subject, _) = take(rest, SEQUENCE)?;
    let (tag, not_before, rest) = element(validity)?;
    let not_before = point_in_time(tag, not_before)?;
    let (tag, not_after, _) = element(rest)?;
    Some(Fields { not_before, not_after: point_in_time(tag, not_after)?, subject })
}

const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xA0;

/// The content of the first element, which must have this tag, and what follows it.
fn take(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = element(der)?;
    (found == tag).then_some((content, rest))
}

/// Tag and content of the first element, and what follows it.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        // Four bytes tell lengths up to 4 GiB; none (0x80) is the form that DER forbids.
        let count = usize::from(first & 0x7F);
        let (bytes, rest) = (1..=4).contains(&count).then(|| rest.split_at_checked(count))??;
        (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// `YYMMDDHHMMSSZ` up to 2049, `YYYYMMDDHHMMSSZ` from then on: RFC 5280 allows no other form.
fn point_in_time(tag: u8, text: &[u8]) -> Option<OffsetDateTime> {
    let digits = text.strip_suffix(b"Z")?;
    let (year, rest) = match tag {
        UTC_TIME => {
            let (year, rest) = digits.split_at_checked(2)?;
            let year = number(year)?;
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = digits.split_at_checked(4)?;
            (number(year)?, rest)
        }
        _ => return None,
    };
    let [month, day, hour, minute, second] = rest
        .chunks(2)
        .map(|pair| number(pair).and_then(|value| u8::try_from(value).ok()))
        .collect::<Option<Vec<u8>>>()?
        .try_into()
        .ok()?;
    let date = Date::from_calendar_date(i32::from(year), Month::try_from(month).ok()?, day).ok()?;
    Some(date.with_time(Time::from_hms(hour, minute, second).ok()?).assume_utc())
}

fn number(digits: &[u8]) -> Option<u16> {
    digits.iter().try_fold(0, |number, digit| digit.is_ascii_digit().then(|| number * 10 + u16::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate_that_ends(not_after: OffsetDateTime) -> CertificateDer<'static> {
        let mut params = rcgen::CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        params.not_after = not_after;
        params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    #[test]
    fn both_forms_of_a_time_are_read() {
        // 2049 is the last year that is written with two digits.
        for (year, month, day) in [(1999, 12, 31), (2026, 2, 28), (2049, 12, 31), (2050, 1, 1), (9999, 12, 31)] {
            let want = rcgen::date_time_ymd(year, month, day).replace_time(Time::from_hms(23, 59, 58).unwrap());
            assert_eq!(not_after(&certificate_that_ends(want)), Some(want));
        }
    }

    #[test]
    fn a_cut_or_changed_certificate_gives_no_time_and_no_panic() {
        let whole = certificate_that_ends(rcgen::date_time_ymd(2030, 1, 1));
        for length in 0..whole.len() {
            assert_eq!(not_after(&CertificateDer::from(&whole[..length])), None, "the first {length} bytes");
        }
        for at in 0..whole.len() {
            for byte in [0x00, 0x7F, 0x80, 0x84, 0xFF] {
                let mut changed = whole.to_vec();
                changed[at] = byte;
                let _ = not_after(&CertificateDer::from(changed));
            }
        }
    }
}
