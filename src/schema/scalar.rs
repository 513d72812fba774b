use super::{Form, POD, Quantity, Type, TypeId, finding::Wanted, text::quoted};
use crate::value::Value;

/// What a scalar of this type wants, or none for types that aren't scalars or take anything.
pub(super) fn wanted(ty: TypeId) -> Option<Wanted> {
    Some(match POD.target(ty).1 {
        Type::Bool => Wanted::Bool,
        Type::Int(bits) => Wanted::Int(*bits),
        Type::String => Wanted::String,
        Type::Struct(ty) => match ty.form {
            Form::IntOrString => Wanted::IntOrString,
            Form::Quantity => Wanted::Quantity,
            Form::Time => Wanted::Time,
            Form::Anything | Form::Object => return None,
        },
        Type::Map(_) | Type::Ptr(_) | Type::Slice(_) => return None,
    })
}

/// What to write instead of a value that isn't of the wanted type; none if it is. Null is of every type: it deletes.
pub(super) fn fix(wanted: Wanted, value: &Value<'_>) -> Option<String> {
    if value.is_null() {
        return None;
    }
    match wanted {
        Wanted::Bool => fix_bool(value),
        Wanted::Int(bits) => fix_int(bits, value),
        Wanted::IntOrString => match value {
            Value::String(_) => None,
            other => fix_int(32, other),
        },
        Wanted::Quantity => Quantity::of(value).err().map(|error| format!("write {}", error.fix)),
        Wanted::String => fix_string(value),
        Wanted::Time => match value {
            Value::String(text) if is_time(text) => None,
            _ => Some("write it as in \"2006-01-02T15:04:05Z\"".to_owned()),
        },
        // Not scalars; what holds them looks at them.
        Wanted::List | Wanted::Map => None,
    }
}

fn fix_bool(value: &Value<'_>) -> Option<String> {
    let text = match value {
        Value::Bool(_) => return None,
        Value::List(_) | Value::Object(_) => return Some("write one of the two".to_owned()),
        other => other.scalar_text().unwrap_or_default().trim().to_ascii_lowercase(),
    };
    Some(match text.as_str() {
        "true" if matches!(value, Value::String(_)) => "write true without quotes".to_owned(),
        "false" if matches!(value, Value::String(_)) => "write false without quotes".to_owned(),
        "yes" | "y" | "on" | "1" => "write true".to_owned(),
        "no" | "n" | "off" | "0" => "write false".to_owned(),
        _ => "write one of the two".to_owned(),
    })
}

fn fix_int(bits: u8, value: &Value<'_>) -> Option<String> {
    let (least, most) = if bits == 32 { (i32::MIN.into(), i32::MAX.into()) } else { (i64::MIN, i64::MAX) };
    let range = || Some(format!("write one from {least} to {most}"));
    match value {
        Value::Int(number) if (least..=most).contains(number) => None,
        Value::Int(_) | Value::Uint(_) => range(),
        // Printed without its zero fraction in the result, as Go prints it, hence a whole number to the API server.
        Value::Float(number) if number.fract() == 0.0 => {
            // 2⁶³ is a float, 2⁶³-1 isn't: hence the half-open range.
            let fits = *number >= least as f64 && *number < most as f64 + f64::from(u8::from(bits == 32));
            if fits { None } else { range() }
        }
        Value::Float(number) if number.abs() < 1e15 => {
            Some(format!("write {} or {}", number.floor() as i64, number.ceil() as i64))
        }
        Value::String(text) => Some(match text.trim().parse::<i64>() {
            Ok(number) if (least..=most).contains(&number) => format!("write {number} without quotes"),
            _ => match seconds(text.trim()) {
                Some(number) if (least..=most).contains(&number) => format!("write {number} without a unit (seconds)"),
                _ => "write a number without quotes".to_owned(),
            },
        }),
        _ => Some("write a number".to_owned()),
    }
}

/// What `30s`, `5m` or `1h` is in seconds.
fn seconds(text: &str) -> Option<i64> {
    let (unit, factor) = [("s", 1), ("m", 60), ("h", 3600)].into_iter().find(|(unit, _)| text.ends_with(unit))?;
    let number: i64 = text.strip_suffix(unit)?.trim_end().parse().ok()?;
    number.checked_mul(factor).filter(|number| *number >= 0)
}

fn fix_string(value: &Value<'_>) -> Option<String> {
    Some(match value {
        Value::String(_) => return None,
        // What YAML reads as true may have been written `yes` or `on`, so the word isn't repeated.
        Value::Bool(_) => "put the word in quotes".to_owned(),
        Value::List(_) => "write one string, without \"- \"".to_owned(),
        // `- a: b`, which is an object for its colon.
        Value::Object(map) if map.len() == 1 => {
            match map.iter().next().map(|(key, value)| (key, value.scalar_text())) {
                Some((key, Some(text))) if text != "null" => {
                    format!("write {} in quotes", quoted(&format!("{key}: {text}")))
                }
                _ => "write one string".to_owned(),
            }
        }
        Value::Object(_) => "write one string".to_owned(),
        other => format!("write {} in quotes", quoted(&other.scalar_text().unwrap_or_default())),
    })
}

/// Whether a text is a time as Go reads RFC 3339, but for the number of days in a month.
fn is_time(text: &str) -> bool {
    let shape = |text: &str, shape: &str| {
        text.len() == shape.len()
            && text.bytes().zip(shape.bytes()).all(|(b, s)| if s == b'0' { b.is_ascii_digit() } else { b == s })
    };
    let number = |from: usize| text.get(from..from + 2).and_then(|digits| digits.parse().ok()).unwrap_or(99u8);
    if !text.get(..19).is_some_and(|head| shape(head, "0000-00-00T00:00:00")) {
        return false;
    }
    let in_range = (1..=12).contains(&number(5)) && (1..=31).contains(&number(8));
    let in_day = number(11) < 24 && number(14) < 60 && number(17) < 60;
    let mut zone = &text[19..];
    if let Some(fraction) = zone.strip_prefix(['.', ',']) {
        let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return false;
        }
        zone = &fraction[digits..];
    }
    in_range && in_day && (zone == "Z" || shape(zone, "+00:00") || shape(zone, "-00:00"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_wrong_type_get_a_fix_and_right_ones_none() {
        let int = Wanted::Int(64);
        for (wanted, value, expected) in [
            (Wanted::Bool, Value::Bool(true), ""),
            (Wanted::Bool, Value::from("true"), "write true without quotes"),
            (Wanted::Bool, Value::from("yes"), "write true"),
            (Wanted::Bool, Value::Int(0), "write false"),
            (Wanted::Bool, Value::from("maybe"), "write one of the two"),
            (Wanted::Bool, Value::List(vec![]), "write one of the two"),
            (int, Value::Int(i64::MIN), ""),
            (int, Value::Float(30.0), ""),
            (int, Value::Float(9.3e18), "write one from -9223372036854775808 to 9223372036854775807"),
            (
                int,
                Value::Float(9_223_372_036_854_775_808.0),
                "write one from -9223372036854775808 to 9223372036854775807",
            ),
            (int, Value::Uint(u64::MAX), "write one from -9223372036854775808 to 9223372036854775807"),
            (int, Value::Float(30.5), "write 30 or 31"),
            (int, Value::Float(-30.5), "write -31 or -30"),
            (int, Value::from("30"), "write 30 without quotes"),
            (int, Value::from("30s"), "write 30 without a unit (seconds)"),
            (int, Value::from("1 h"), "write 3600 without a unit (seconds)"),
            (int, Value::from("root"), "write a number without quotes"),
            (int, Value::Bool(true), "write a number"),
            (Wanted::Int(32), Value::Int(2_147_483_648), "write one from -2147483648 to 2147483647"),
            (Wanted::Int(32), Value::Float(2_147_483_647.0), ""),
            (Wanted::Int(32), Value::Float(2_147_483_648.0), "write one from -2147483648 to 2147483647"),
            (Wanted::IntOrString, Value::from("http"), ""),
            (Wanted::IntOrString, Value::Int(80), ""),
            (Wanted::IntOrString, Value::Float(80.5), "write 80 or 81"),
            (Wanted::Quantity, Value::Float(0.5), ""),
            (Wanted::Quantity, Value::from("1GB"), "write 1G or 1Gi"),
            (Wanted::Quantity, Value::Bool(true), "write an amount such as 500m, 2 or 1Gi"),
            (Wanted::String, Value::from(""), ""),
            (Wanted::String, Value::Null, ""),
            (Wanted::String, Value::Int(8080), r#"write "8080" in quotes"#),
            (Wanted::String, Value::Bool(true), "put the word in quotes"),
        ] {
            assert_eq!(fix(wanted, &value).unwrap_or_default(), expected, "{wanted:?} {value:?}");
        }
    }

    #[test]
    fn times_are_rfc_3339() {
        for good in ["2006-01-02T15:04:05Z", "2006-01-02T15:04:05.123456789Z", "2006-01-02T15:04:05+01:00"] {
            assert_eq!(fix(Wanted::Time, &Value::from(good)), None, "{good}");
        }
        for bad in [
            "",
            "2006-01-02",
            "2006-13-02T15:04:05Z",
            "2006-01-02 15:04:05Z",
            "2006-01-02T15:04:05",
            "2006-01-02T15:04:05.Z",
            "é006-01-02T15:04:05Z",
            "2006-01-02T15:04:05é",
        ] {
            assert!(fix(Wanted::Time, &Value::from(bad)).is_some(), "{bad}");
        }
    }
}
