/// Whether a text fits a glob, in which `*` stands for any characters and nothing else is special.
pub fn glob_matches(glob: &str, text: &str) -> bool {
    let mut parts = glob.split('*');
    // INVARIANT: splitting gives at least one part.
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_know_only_the_star() {
        for (glob, text, fits) in [
            ("ci", "ci", true),
            ("ci", "cix", false),
            ("ci-*", "ci-a", true),
            ("ci-*", "ci-", true),
            ("*-ci", "a-ci", true),
            ("*", "", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "ac", false),
            ("ab*ba", "aba", false),
            ("c?", "ca", false),
        ] {
            assert_eq!(glob_matches(glob, text), fits, "{glob} on {text}");
        }
    }
}
