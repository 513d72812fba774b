/// The candidate that somebody most likely meant by `name`, or none if nothing is near.
///
/// A candidate that differs only in case comes first; else the one with the fewest typing errors (a character too many,
/// too few, wrong, or two swapped), as long as there are at most two of them or at most one for each three characters.
/// Short names allow fewer: `os` isn't a mistyped `ip`. The order of the candidates plays no part.
pub fn nearest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let limit = match name.chars().count() {
        0 | 1 => 0,
        2 | 3 => 1,
        length => (length / 3).max(2),
    };
    nearest_within(name, candidates, limit)
}

/// The same with at most `limit` typing errors.
pub(super) fn nearest_within<'c>(
    name: &str,
    candidates: impl IntoIterator<Item = &'c str>,
    limit: usize,
) -> Option<&'c str> {
    let wanted: Vec<char> = name.chars().flat_map(char::to_lowercase).collect();
    candidates
        .into_iter()
        .filter_map(|candidate| Some((distance(name, &wanted, candidate, limit)?, candidate)))
        .min()
        .map(|(_, candidate)| candidate)
}

/// How many typing errors lie between a name and a candidate, or none if more than `limit`.
fn distance(name: &str, wanted: &[char], candidate: &str, limit: usize) -> Option<usize> {
    // Bytes say cheaply that two texts are far too different: a character has at most four.
    if candidate.len() > 4 * (wanted.len() + limit) || wanted.len() > candidate.len() + limit {
        return None;
    }
    let other: Vec<char> = candidate.chars().flat_map(char::to_lowercase).collect();
    if other == wanted {
        return Some(usize::from(candidate != name));
    }
    if other.len().abs_diff(wanted.len()) > limit {
        return None;
    }
    // Difference in case is no error here, but ranks behind equality in case: hence the one more.
    let errors = typing_errors(wanted, &other);
    (errors <= limit).then_some(errors + 1)
}

/// The optimal string alignment distance: Levenshtein's, with a swap of neighbours as one error.
fn typing_errors(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    let mut row = before.clone();
    for (i, x) in a.iter().enumerate() {
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let mut errors = (last[j] + usize::from(x != y)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                errors = errors.min(before[j - 1] + 1);
            }
            row[j + 1] = errors;
        }
        std::mem::swap(&mut before, &mut last);
        std::mem::swap(&mut last, &mut row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: [&str; 9] =
        ["args", "command", "env", "envFrom", "image", "resources", "securityContext", "tty", "volumeMounts"];

    #[test]
    fn typing_errors_find_their_word() {
        for (name, meant) in [
            ("resource", "resources"),
            ("Resources", "resources"),
            ("resuorces", "resources"),
            ("evn", "env"),
            ("envs", "env"),
            ("env_from", "envFrom"),
            ("volumemount", "volumeMounts"),
            ("securitycontxt", "securityContext"),
            ("iamge", "image"),
        ] {
            assert_eq!(nearest(name, FIELDS), Some(meant), "{name}");
        }
    }

    #[test]
    fn what_is_far_from_all_finds_none() {
        for name in ["", "x", "os", "llamas", "gpu", "volumes", &"a".repeat(100_000)] {
            assert_eq!(nearest(name, FIELDS), None, "{name}");
        }
    }

    #[test]
    fn equality_but_for_case_wins_and_ties_go_by_name() {
        assert_eq!(nearest("NODENAME", ["nodename2", "nodeName"]), Some("nodeName"));
        assert_eq!(nearest("cat", ["hat", "bat"]), Some("bat"));
        assert_eq!(nearest("cat", ["bat", "hat"]), Some("bat"));
    }

    #[test]
    fn a_swap_is_one_error() {
        let chars = |text: &str| text.chars().collect::<Vec<_>>();
        for (a, b, errors) in
            [("ab", "ba", 1), ("abc", "abc", 0), ("abc", "", 3), ("kitten", "sitting", 3), ("", "a", 1)]
        {
            assert_eq!(typing_errors(&chars(a), &chars(b)), errors, "{a} {b}");
        }
    }
}
