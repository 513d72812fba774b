use std::io::IsTerminal;

use base64::{Engine, engine::general_purpose::STANDARD};
use hyper::header::HeaderValue;
use secrecy::{ExposeSecret, SecretString};

/// The variable that Azure DevOps' own command line reads.
const VARIABLE: &str = "AZURE_DEVOPS_EXT_PAT";

/// A personal access token of Azure DevOps. Nothing prints it.
#[derive(Clone, Debug)]
pub struct Pat(SecretString);

/// Why there is no PAT.
#[derive(Debug, thiserror::Error)]
pub enum PatError {
    /// It has characters that no PAT has.
    #[error("the PAT from {from} is empty or has blanks or other characters that no PAT has")]
    Malformed {
        /// Where it came from.
        from: &'static str,
    },
    /// Neither the variable nor anybody to ask.
    #[error("no PAT: set {VARIABLE}, or run this on a terminal to be asked for it")]
    Missing,
    /// The terminal can't be used.
    #[error("failed to ask for the PAT on the terminal")]
    Terminal(#[source] std::io::Error),
}

impl Pat {
    /// Takes it from the environment, or asks for it on a terminal, where it isn't shown.
    ///
    /// # Errors
    /// [`PatError`].
    pub fn from_environment_or_terminal() -> Result<Self, PatError> {
        match std::env::var(VARIABLE) {
            Ok(text) => Self::new(text, VARIABLE),
            Err(std::env::VarError::NotUnicode(_)) => Err(PatError::Malformed { from: VARIABLE }),
            Err(std::env::VarError::NotPresent) if std::io::stdin().is_terminal() => {
                let prompt = "PAT of Azure DevOps (it isn't shown): ";
                Self::new(rpassword::prompt_password(prompt).map_err(PatError::Terminal)?, "the terminal")
            }
            Err(std::env::VarError::NotPresent) => Err(PatError::Missing),
        }
    }

    fn new(text: String, from: &'static str) -> Result<Self, PatError> {
        let text = SecretString::from(text);
        let trimmed = text.expose_secret().trim();
        if trimmed.is_empty() || !trimmed.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(PatError::Malformed { from });
        }
        Ok(Self(trimmed.into()))
    }

    /// As the header `Authorization` has it: the user is empty.
    fn encoded(&self) -> SecretString {
        STANDARD.encode(format!(":{}", self.0.expose_secret())).into()
    }

    /// The header `Authorization`, marked so that nothing logs it.
    pub(super) fn header(&self) -> Option<HeaderValue> {
        // Base64 has no character that a header can't have.
        let mut header = HeaderValue::from_str(&format!("Basic {}", self.encoded().expose_secret())).ok()?;
        header.set_sensitive(true);
        Some(header)
    }

    /// A text without it, should somebody have written it there.
    pub(super) fn removed_from(&self, text: &str) -> String {
        text.replace(self.0.expose_secret(), "…").replace(self.encoded().expose_secret(), "…")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pat_is_never_shown_and_taken_out_of_what_others_write() {
        let pat = Pat::new("canary7\n".into(), VARIABLE).unwrap();
        assert!(!format!("{pat:?}").contains("canary"));
        let header = pat.header().unwrap();
        assert_eq!(header.to_str().unwrap(), "Basic OmNhbmFyeTc=");
        assert_eq!(format!("{header:?}"), "Sensitive");
        assert_eq!(pat.removed_from("no canary7 and no OmNhbmFyeTc= here"), "no … and no … here");
    }

    #[test]
    fn what_can_be_no_pat_is_refused_without_being_shown() {
        for bad in ["", " \n", "two words", "Bearer\tx", "ünïcode", "a\u{7}b"] {
            let error = Pat::new(bad.into(), VARIABLE).unwrap_err().to_string();
            let wanted = "the PAT from AZURE_DEVOPS_EXT_PAT is empty or has blanks or other characters that no PAT has";
            assert_eq!(error, wanted);
        }
    }
}
