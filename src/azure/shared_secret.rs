use secrecy::{ExposeSecret, SecretString};

/// A shared secret has at least so many characters: the rule of Azure DevOps' own registration script.
pub const LEAST_CHARACTERS: usize = 16;

/// What Azure DevOps and the endpoint share: the key of the signature. Nothing prints it.
#[derive(Clone, Debug)]
pub struct SharedSecret(SecretString);

/// Why bytes are no shared secret.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SharedSecretError {
    /// Not UTF-8, as which Azure DevOps takes it.
    #[error("shared secret is no UTF-8 text, byte {at} is none")]
    NoText {
        /// The first byte that is wrong, counted from 1.
        at: usize,
    },
    /// Anybody could guess it.
    #[error("shared secret has {characters} characters, at least {LEAST_CHARACTERS} are needed")]
    Short {
        /// How many it has.
        characters: usize,
    },
}

impl SharedSecret {
    /// Takes the bytes of a file or of a key of a Secret. One newline at the end, which editors and `echo` write, is no
    /// part of it; whatever else is there is.
    ///
    /// # Errors
    /// [`SharedSecretError`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SharedSecretError> {
        let text = str::from_utf8(bytes).map_err(|error| SharedSecretError::NoText { at: error.valid_up_to() + 1 })?;
        let text = text.strip_suffix('\n').map_or(text, |text| text.strip_suffix('\r').unwrap_or(text));
        match text.chars().count() {
            characters if characters < LEAST_CHARACTERS => Err(SharedSecretError::Short { characters }),
            _ => Ok(Self(text.into())),
        }
    }

    /// The secret itself.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

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
            assert_eq!(SharedSecret::from_bytes(bytes.as_bytes()).unwrap().expose(), wanted);
        }
    }

    #[test]
    fn what_is_too_short_or_no_text_is_refused() {
        let error = |bytes: &[u8]| SharedSecret::from_bytes(bytes).unwrap_err().to_string();
        assert_eq!(error(b"short"), "shared secret has 5 characters, at least 16 are needed");
        assert_eq!(error(b"short\n"), "shared secret has 5 characters, at least 16 are needed");
        assert_eq!(error(b""), "shared secret has 0 characters, at least 16 are needed");
        // Characters, not bytes.
        assert_eq!(error("ääääääääääääääa".as_bytes()), "shared secret has 15 characters, at least 16 are needed");
        assert_eq!(error(b"0123456789abcde\n"), "shared secret has 15 characters, at least 16 are needed");
        assert_eq!(error(b"01\xff3456789abcdef"), "shared secret is no UTF-8 text, byte 3 is none");
    }

    #[test]
    fn it_is_not_shown() {
        let secret = SharedSecret::from_bytes(b"canary-0123456789").unwrap();
        assert!(!format!("{secret:?}").contains("canary"));
    }
}
