use std::{cmp::Ordering, str::FromStr};

use crate::value::{Value, to_json};

/// An amount of a resource, exact and comparable whatever its notation: `500m` < `1`, `1Ki` = `1024`.
///
/// Reads what the API server reads (`resource.ParseQuantity` of k8s.io/apimachinery), rounds up to whole `n` as it
/// does and caps binary amounts at 2⁶³-1 as it does. Only texts without a digit in front of the suffix are refused here
/// and not there, where `Ki`, `m`, `+` and `.e3` are zero: nobody means that.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Quantity {
    negative: bool,
    /// Decimal digits without zeros at either end; none for zero. The amount is `0.<digits>` times ten to `point`.
    digits: Vec<u8>,
    point: i64,
}

/// Why something isn't a quantity.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{text} is no quantity, write {fix}")]
pub struct QuantityError {
    /// What stands there, as JSON.
    pub text: String,
    /// What to write instead.
    pub fix: String,
}

/// Ten to minus this is the smallest amount (`n`).
const NANO: i64 = 9;

impl Quantity {
    /// Reads a quantity as the API server reads it out of JSON: a string, blanks around it ignored, or a number.
    ///
    /// # Errors
    /// [`QuantityError`] for anything else.
    pub fn of(value: &Value<'_>) -> Result<Self, QuantityError> {
        match value {
            Value::String(text) => text.trim().parse(),
            Value::Int(_) | Value::Uint(_) | Value::Float(_) => to_json(value).parse(),
            other => Err(QuantityError { text: to_json(other), fix: EXAMPLE.to_owned() }),
        }
    }

    /// Whether the amount is nothing at all.
    pub fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    /// Whether the amount is below nothing.
    pub fn is_negative(&self) -> bool {
        self.negative
    }

    fn read(text: &str) -> Option<Self> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (whole, rest) = split_digits(rest);
        let (fraction, rest) = rest.strip_prefix('.').map_or(("", rest), split_digits);
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let suffix = Suffix::read(rest)?;
        let digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).map(|digit| digit - b'0').collect();
        let mut quantity = Self { negative, digits, point: whole.len() as i64 };
        match suffix {
            Suffix::Decimal(exponent) => quantity.point += i64::from(exponent),
            Suffix::Binary(exponent) => quantity.double(exponent),
        }
        quantity.trim();
        quantity.round_up();
        if matches!(suffix, Suffix::Binary(_)) {
            let largest = Self::whole(i64::MAX);
            if quantity.magnitude(&largest) == Ordering::Greater {
                quantity = Self { negative, ..largest };
            }
        }
        Some(quantity)
    }

    fn whole(amount: i64) -> Self {
        let digits: Vec<u8> = amount.unsigned_abs().to_string().bytes().map(|digit| digit - b'0').collect();
        let mut quantity = Self { negative: amount < 0, point: digits.len() as i64, digits };
        quantity.trim();
        quantity
    }

    /// Times two to `exponent`, which is at most 60.
    fn double(&mut self, exponent: u32) {
        let mut carry = 0u128;
        for digit in self.digits.iter_mut().rev() {
            carry += u128::from(*digit) << exponent;
            *digit = (carry % 10) as u8;
            carry /= 10;
        }
        if carry > 0 {
            let front: Vec<u8> = carry.to_string().bytes().map(|digit| digit - b'0').collect();
            self.point += front.len() as i64;
            self.digits.splice(0..0, front);
        }
    }

    fn trim(&mut self) {
        let zeros = self.digits.iter().take_while(|digit| **digit == 0).count();
        self.digits.drain(..zeros);
        self.point -= zeros as i64;
        let used = self.digits.iter().rposition(|digit| *digit != 0).map_or(0, |last| last + 1);
        self.digits.truncate(used);
        if self.digits.is_empty() {
            (self.negative, self.point) = (false, 0);
        }
    }

    /// Rounds away from zero to whole `n`, so that nothing becomes zero that wasn't.
    fn round_up(&mut self) {
        let kept = self.point + NANO;
        if self.digits.len() as i64 <= kept {
            return;
        }
        if kept <= 0 {
            (self.digits, self.point) = (vec![1], 1 - NANO);
            return;
        }
        self.digits.truncate(kept as usize);
        let Some(last) = self.digits.iter().rposition(|digit| *digit != 9) else {
            (self.digits, self.point) = (vec![1], self.point + 1);
            return;
        };
        self.digits.truncate(last + 1);
        self.digits[last] += 1;
    }

    fn magnitude(&self, other: &Self) -> Ordering {
        match (self.is_zero(), other.is_zero()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => (self.point, &self.digits).cmp(&(other.point, &other.digits)),
        }
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        Self::read(text).ok_or_else(|| QuantityError { text: to_json(&Value::from(text)), fix: fix(text) })
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.negative, other.negative) {
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => self.magnitude(other),
            (true, true) => other.magnitude(self),
        }
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

enum Suffix {
    /// Times ten to this.
    Decimal(i32),
    /// Times two to this.
    Binary(u32),
}

impl Suffix {
    fn read(text: &str) -> Option<Self> {
        Some(match text {
            "n" => Self::Decimal(-9),
            "u" => Self::Decimal(-6),
            "m" => Self::Decimal(-3),
            "" => Self::Decimal(0),
            "k" => Self::Decimal(3),
            "M" => Self::Decimal(6),
            "G" => Self::Decimal(9),
            "T" => Self::Decimal(12),
            "P" => Self::Decimal(15),
            "E" => Self::Decimal(18),
            "Ki" => Self::Binary(10),
            "Mi" => Self::Binary(20),
            "Gi" => Self::Binary(30),
            "Ti" => Self::Binary(40),
            "Pi" => Self::Binary(50),
            "Ei" => Self::Binary(60),
            // Go cuts the exponent to 32 bits without a word.
            _ => Self::Decimal(text.strip_prefix(['e', 'E'])?.parse::<i64>().ok()? as i32),
        })
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().position(|b| !b.is_ascii_digit()).unwrap_or(text.len()))
}

const EXAMPLE: &str = "an amount such as 500m, 2 or 1Gi";

/// What somebody meant who wrote `1GB`, `1 Gi`, `512mb` or `2 cores`.
fn fix(text: &str) -> String {
    let text: String = text.chars().filter(|c| !c.is_whitespace() && *c != '_').take(40).collect();
    let text = text.replace(',', ".");
    // Nothing else was wrong: `500 m` is no mistyped `500M`.
    if Quantity::read(&text).is_some() {
        return text;
    }
    let (number, unit) = text.split_at(text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len()));
    if Quantity::read(number).is_none() {
        return EXAMPLE.to_owned();
    }
    let unit = unit.to_ascii_lowercase();
    let bare = match unit.as_str() {
        "" | "b" | "byte" | "bytes" | "core" | "cores" | "cpu" | "cpus" | "vcpu" | "vcpus" => return number.to_owned(),
        "millicore" | "millicores" | "millicpu" | "mcpu" => return format!("{number}m"),
        unit => unit.strip_suffix("bytes").or_else(|| unit.strip_suffix('b')).unwrap_or(unit),
    };
    match bare {
        "k" => format!("{number}k or {number}Ki"),
        "m" | "g" | "t" | "p" | "e" => format!("{number}{0} or {number}{0}i", bare.to_ascii_uppercase()),
        "ki" | "mi" | "gi" | "ti" | "pi" | "ei" => format!("{number}{}i", bare[..1].to_ascii_uppercase()),
        _ => EXAMPLE.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Quantity {
        text.parse().unwrap()
    }

    #[test]
    fn equal_amounts_are_equal_in_any_notation() {
        for (a, b) in [
            ("1Ki", "1024"),
            ("1", "1000m"),
            ("1", "1.000"),
            ("1", "01"),
            ("+1", "1"),
            ("1.", "1"),
            (".5", "500m"),
            ("0.5", "5e-1"),
            ("1k", "1e3"),
            ("1k", "1E+3"),
            ("1E", "1e18"),
            ("1.5Gi", "1610612736"),
            ("0.5Ki", "512"),
            ("0", "-0"),
            ("0", "0.000Gi"),
            ("8Ei", "9223372036854775807"),
            ("-100Ei", "-9223372036854775807"),
            ("0.1n", "1n"),
            ("1.0000000001", "1.000000001"),
            ("0.99999999999", "1"),
            ("-0.1n", "-1n"),
            ("1e-2000000000", "1n"),
            ("1e4294967296", "1"),
            ("1000000000000000000000000000000", "1e30"),
        ] {
            assert_eq!(read(a), read(b), "{a} {b}");
            assert_eq!(read(a).cmp(&read(b)), Ordering::Equal, "{a} {b}");
        }
    }

    #[test]
    fn amounts_are_ordered_by_size() {
        let order = [
            "-1e2000000000",
            "-1Ki",
            "-1k",
            "-1",
            "-1m",
            "0",
            "1n",
            "1u",
            "1m",
            "10m",
            "500m",
            "0.50001",
            "1",
            "1.5",
            "2",
            "10",
            "1k",
            "1Ki",
            "1M",
            "1Mi",
            "1.5Gi",
            "1.6Gi",
            "10G",
            "10Gi",
            "7Ei",
            "1e19",
            "1e2000000000",
        ];
        for (at, a) in order.iter().enumerate() {
            for (other, b) in order.iter().enumerate() {
                assert_eq!(read(a).cmp(&read(b)), at.cmp(&other), "{a} {b}");
            }
        }
    }

    #[test]
    fn what_the_api_server_refuses_is_refused_with_what_to_write() {
        for (text, fix) in [
            ("", EXAMPLE),
            ("-", EXAMPLE),
            ("Ki", EXAMPLE),
            (".", EXAMPLE),
            ("1.2.3", EXAMPLE),
            ("abc", EXAMPLE),
            ("1e", "1E or 1Ei"),
            ("1e1.5", EXAMPLE),
            ("1m5", EXAMPLE),
            ("--1", EXAMPLE),
            ("1ki", "1Ki"),
            ("1K", "1k or 1Ki"),
            ("1kB", "1k or 1Ki"),
            ("1GB", "1G or 1Gi"),
            ("1g", "1G or 1Gi"),
            ("1.5GiB", "1.5Gi"),
            ("512mb", "512M or 512Mi"),
            ("1 Gi", "1Gi"),
            ("500 m", "500m"),
            ("1 k", "1k"),
            ("1,5", "1.5"),
            ("2 cores", "2"),
            ("1_000", "1000"),
            ("50%", EXAMPLE),
            ("é", EXAMPLE),
            ("1é", EXAMPLE),
        ] {
            let error = text.parse::<Quantity>().unwrap_err();
            assert_eq!(error.fix, fix, "{text}");
        }
        assert_eq!("1\nG".parse::<Quantity>().unwrap_err().to_string(), r#""1\nG" is no quantity, write 1G"#);
    }

    #[test]
    fn json_numbers_are_amounts_and_blanks_around_a_text_are_none() {
        assert_eq!(Quantity::of(&Value::Int(2)).unwrap(), read("2"));
        assert_eq!(Quantity::of(&Value::Float(0.5)).unwrap(), read("500m"));
        assert_eq!(Quantity::of(&Value::Float(1e300)).unwrap(), read("1e300"));
        assert_eq!(Quantity::of(&Value::from(" 1Gi\n")).unwrap(), read("1Gi"));
        assert!(Quantity::of(&Value::Bool(true)).is_err());
        assert!(Quantity::of(&Value::Null).is_err());
    }
}
