//! The secret that Azure Pipelines and a pool share.

use std::fmt;

/// How short it may be: what Azure Pipelines asks for when a pool is registered.
const SHORTEST: usize = 16;

/// What calls are signed with. Nothing prints it.
#[derive(Clone, Eq, PartialEq)]
pub struct SharedSecret(Vec<u8>);

/// Why some bytes are no shared secret.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SharedSecretError {
    /// They are no text, and Azure Pipelines takes the secret as text.
    #[error("shared secret is not UTF-8 text; write at least {SHORTEST} characters")]
    NotText,
    /// There are too few of them.
    #[error("shared secret has {0} characters, at least {SHORTEST} are needed")]
    TooShort(usize),
}

impl SharedSecret {
    /// The secret in some bytes, such as a file's or a Secret's. One line feed at the end (or carriage return and line
    /// feed), which editors add, is not part of it.
    ///
    /// # Errors
    /// [`SharedSecretError`].
    pub fn new(bytes: &[u8]) -> Result<Self, SharedSecretError> {
        let text = std::str::from_utf8(bytes).map_err(|_| SharedSecretError::NotText)?;
        let text = text.strip_suffix("\r\n").or_else(|| text.strip_suffix('\n')).unwrap_or(text);
        match text.chars().count() {
            length if length < SHORTEST => Err(SharedSecretError::TooShort(length)),
            _ => Ok(Self(text.as_bytes().to_vec())),
        }
    }

    /// The key.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SharedSecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SharedSecret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_feed_at_the_end_is_not_part_of_it_and_short_ones_are_refused_with_their_length() {
        let of = |text: &str| SharedSecret::new(text.as_bytes()).map(|secret| secret.bytes().to_vec());
        assert_eq!(of("0123456789abcdef\n").unwrap(), b"0123456789abcdef");
        assert_eq!(of("0123456789abcdef\r\n").unwrap(), b"0123456789abcdef");
        assert_eq!(of("0123456789abcdef\n\n").unwrap(), b"0123456789abcdef\n");
        assert_eq!(of("ééééééééééééééé").unwrap_err(), SharedSecretError::TooShort(15));
        assert_eq!(of("12345\n").unwrap_err().to_string(), "shared secret has 5 characters, at least 16 are needed");
        assert_eq!(SharedSecret::new(&[0xff; 20]).unwrap_err(), SharedSecretError::NotText);
        assert!(!format!("{:?}", SharedSecret::new(b"0123456789abcdef").unwrap()).contains("0123"));
    }
}
