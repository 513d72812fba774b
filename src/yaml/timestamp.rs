/// Whether go-yaml accepts this under `!!timestamp`: one of its four layouts in Go's `time.Parse`, which takes one or
/// two digits for all but the year. The value stays text, so no more than this is needed of it.
pub(super) fn is_one(text: &str) -> bool {
    parse(text).is_some()
}

fn parse(text: &str) -> Option<()> {
    let (year, rest) = text.split_at_checked(4)?;
    let leap = year.bytes().all(|b| b.is_ascii_digit()).then_some(year)?.parse().ok().map(is_leap)?;
    let (month, rest) = number(rest.strip_prefix('-')?)?;
    let (day, rest) = number(rest.strip_prefix('-')?)?;
    let days = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if day == 0 || day > days {
        return None;
    }
    let Some(separator) = rest.chars().next() else { return Some(()) };
    let (hour, rest) = number(rest.strip_prefix(['T', 't', ' '])?)?;
    let (minute, rest) = number(rest.strip_prefix(':')?)?;
    let (second, mut rest) = number(rest.strip_prefix(':')?)?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    if let Some(fraction) = rest.strip_prefix(['.', ',']) {
        let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return None;
        }
        rest = &fraction[digits..];
    }
    // With a T there is a zone, with a space none.
    match (separator, rest) {
        (' ', "") | ('T' | 't', "Z") => Some(()),
        ('T' | 't', zone) => {
            let (hours, minutes) = zone.strip_prefix(['+', '-'])?.split_once(':')?;
            let two = |text: &str, most| {
                text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit()) && text.parse().is_ok_and(|n: u8| n <= most)
            };
            (two(hours, 24) && two(minutes, 60)).then_some(())
        }
        _ => None,
    }
}

/// One or two digits, and what follows.
fn number(text: &str) -> Option<(u8, &str)> {
    let digits = text.bytes().take(2).take_while(u8::is_ascii_digit).count();
    Some((text[..digits].parse().ok()?, &text[digits..]))
}

fn is_leap(year: u16) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_four_layouts_are_known_and_dates_must_exist() {
        for text in [
            "2001-12-14",
            "2001-1-1",
            "2000-02-29",
            "2001-12-14 21:59:43.10",
            "2001-12-14 1:2:3",
            "2001-12-14T21:59:43Z",
            "2001-12-14t21:59:43.10-05:00",
        ] {
            assert!(is_one(text), "{text}");
        }
        for text in [
            "",
            "2001",
            "2001-99-99",
            "1900-02-29",
            "2001-12-14 21:59:43 -5",
            "2001-12-14T21:59:43",
            "2001-12-14x",
            "yyyy-1-1",
            "20é1-1",
        ] {
            assert!(!is_one(text), "{text}");
        }
    }
}
