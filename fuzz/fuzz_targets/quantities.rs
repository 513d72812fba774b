//! Quantities: no text makes the reader panic; an amount that fits 128 bits is what arithmetic says it is, whatever its notation;
//! amounts have one order; a text that is none is told so with an example.

#![no_main]

use libfuzzer_sys::fuzz_target;
use podlayer::schema::Quantity;

fuzz_target!(init: podlayer_fuzz::corpus::fill("quantities"), |data: &str| {
    let mut read = Vec::new();
    for text in data.split('\n').take(4) {
        match text.parse::<Quantity>() {
            Ok(quantity) => {
                assert_eq!(text.parse(), Ok(quantity.clone()));
                if let Some(nano) = nano(text) {
                    assert_eq!(format!("{nano}n").parse(), Ok(quantity.clone()), "{text:?}");
                    assert_eq!(quantity.is_zero(), nano == 0);
                }
                read.push(quantity);
            }
            Err(error) => assert!(!error.fix.is_empty() && error.to_string().contains("write"), "{error}"),
        }
    }
    for one in &read {
        for other in &read {
            assert_eq!(one.cmp(other), other.cmp(one).reverse());
            assert_eq!(one == other, one.cmp(other).is_eq());
            for third in &read {
                assert!(!(one <= other && other <= third) || one <= third);
            }
        }
    }
});

/// An amount in billionths, rounded away from zero: by plain arithmetic, for what is small enough.
fn nano(text: &str) -> Option<i128> {
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() + fraction.len() > 12 || fraction.contains('.') {
        return None;
    }
    let digits: i128 = format!("0{whole}{fraction}").parse().ok()?;
    let binary = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].iter().position(|known| *known == suffix);
    let decimal =
        |exponent: i32| (10i128.checked_pow(exponent.max(0) as u32), 10i128.checked_pow((-exponent).max(0) as u32));
    let (times, by) = match (binary, suffix) {
        (Some(at), _) => (1i128.checked_shl(10 * (at as u32 + 1)), Some(1)),
        (None, "n") => decimal(-9),
        (None, "u") => decimal(-6),
        (None, "m") => decimal(-3),
        (None, "") => decimal(0),
        (None, "k") => decimal(3),
        (None, "M") => decimal(6),
        (None, "G") => decimal(9),
        (None, "T") => decimal(12),
        (None, "P") => decimal(15),
        (None, "E") => decimal(18),
        (None, suffix) => decimal(suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok().filter(|e| e.abs() < 18)?),
    };
    let above = digits.checked_mul(times?)?.checked_mul(1_000_000_000)?;
    let below = by?.checked_mul(10i128.checked_pow(u32::try_from(fraction.len()).ok()?)?)?;
    let amount = above / below + i128::from(above % below != 0);
    // Binary amounts end at 2⁶³-1.
    let most = i128::from(i64::MAX) * 1_000_000_000;
    let amount = if binary.is_some() { amount.min(most) } else { amount };
    Some(if negative { -amount } else { amount })
}
