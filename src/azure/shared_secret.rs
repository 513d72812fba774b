//! The secret that Azure Pipelines and a pool share.

use secrecy::{ExposeSecret, SecretString};

/// How short it may be: what Azure Pipelines asks for when a pool is registered.
const SHORTEST: usize = 16;

/// What calls are signed with. Nothing prints it.
#[derive(Clone, Debug)]
pub struct SharedSecret(SecretString);

/// Why some bytes are no shared secret.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SharedSecretError {
    /// They are no text, and Azure Pipelines takes the secret as text.
    #[error("shared secret is no UTF-8 text; write at least {SHORTEST} characters")]
    NotText,
    /// There are too few characters.
    #[error("shared secret has {0} characters, at least {SHORTEST} are needed")]
    TooShort(usize),
}

impl SharedSecret {
    /// The secret in some bytes, such as a file's or a Secret's. One newline at the end (or carriage return and newline),
    /// which editors and `echo` write, is no part of it; whatever else is there is.
    ///
    /// # Errors
    /// [`SharedSecretError`].
    pub fn new(bytes: &[u8]) -> Result<Self, SharedSecretError> {
        let text = str::from_utf8(bytes).map_err(|_| SharedSecretError::NotText)?;
        let text = text.strip_suffix("\r\n").or_else(|| text.strip_suffix('\n')).unwrap_or(text);
        match text.chars().count() {
            characters if characters < SHORTEST => Err(SharedSecretError::TooShort(characters)),
            _ => Ok(Self(text.into())),
        }
    }

    /// The key.
    pub fn bytes(&self) -> &[u8] {
        self.text().as_bytes()
    }

    /// The key as text.
    pub fn text(&self) -> &str {
        self.0.expose_secret()
    }
}

impl PartialEq for SharedSecret {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for SharedSecret {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_newline_at_the_end_is_no_part_of_it() {
        for (bytes, wanted) in [
            ("0123456789abcdef", "0123456789abcdef"),
            ("0123456789abcdef\n", "0123456789abcdef"),
            ("0123456789abcdef\r\n", "0123456789abcdef"),
            ("0123456789abcdef\n\n", "0123456789abcdef\n"),
            ("0123456789abcdef\r", "0123456789abcdef\r"),
            (" 123456789abcde ", " 123456789abcde "),
            ("äöüß0123456789ab", "äöüß0123456789ab"),
        ] {
            assert_eq!(SharedSecret::new(bytes.as_bytes()).unwrap().text(), wanted);
        }
    }

    #[test]
    fn what_is_too_short_or_no_text_is_refused() {
        let error = |bytes: &[u8]| SharedSecret::new(bytes).unwrap_err().to_string();
        assert_eq!(error(b"short"), "shared secret has 5 characters, at least 16 are needed");
        assert_eq!(error(b"short\n"), "shared secret has 5 characters, at least 16 are needed");
        assert_eq!(error(b""), "shared secret has 0 characters, at least 16 are needed");
        // Characters, not bytes.
        assert_eq!(error("ääääääääääääääa".as_bytes()), "shared secret has 15 characters, at least 16 are needed");
        assert_eq!(error(b"0123456789abcde\n"), "shared secret has 15 characters, at least 16 are needed");
        assert_eq!(error(b"01\xff3456789abcdef"), "shared secret is no UTF-8 text; write at least 16 characters");
    }

    #[test]
    fn it_is_not_shown() {
        let secret = SharedSecret::new(b"canary-0123456789").unwrap();
        assert!(!format!("{secret:?}").contains("canary"));
    }
}
