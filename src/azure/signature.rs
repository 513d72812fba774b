//! `X-Azure-Signature`: the hexadecimal HMAC-SHA512 of the raw body.

use hmac::{Hmac, Mac};
use sha2::Sha512;

use super::SharedSecret;

/// Bytes of the signature.
const LENGTH: usize = 64;

/// Why a call isn't Azure Pipelines'.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SignatureError {
    /// There is no signature.
    #[error("the header X-Azure-Signature is missing")]
    Missing,
    /// It can't be one.
    #[error("the header X-Azure-Signature is not 128 hexadecimal digits")]
    NotHex,
    /// No accepted secret makes it.
    #[error("the signature is not one of this pool's secret over this body")]
    Wrong,
}

/// The signature of a body, in lower case.
pub fn sign(secret: &SharedSecret, body: &[u8]) -> String {
    mac(secret, body).finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a signature is that of one of the secrets. Every secret is tried, and each comparison takes the same time
/// whatever the bytes.
///
/// # Errors
/// [`SignatureError`].
pub fn verify(secrets: &[SharedSecret], header: Option<&[u8]>, body: &[u8]) -> Result<(), SignatureError> {
    let given = unhex(header.ok_or(SignatureError::Missing)?).ok_or(SignatureError::NotHex)?;
    let mut right = false;
    for secret in secrets {
        right |= mac(secret, body).verify_slice(&given).is_ok();
    }
    right.then_some(()).ok_or(SignatureError::Wrong)
}

fn mac(secret: &SharedSecret, body: &[u8]) -> Hmac<Sha512> {
    // INVARIANT: HMAC takes a key of any length (RFC 2104: longer ones are hashed).
    #[allow(clippy::expect_used)]
    let mut mac = Hmac::<Sha512>::new_from_slice(secret.bytes()).expect("a key of any length");
    mac.update(body);
    mac
}

fn unhex(text: &[u8]) -> Option<[u8; LENGTH]> {
    let text = text.trim_ascii();
    if text.len() != 2 * LENGTH {
        return None;
    }
    let mut bytes = [0; LENGTH];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        *byte = u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(bytes: &[u8]) -> SharedSecret {
        SharedSecret::new(bytes).unwrap()
    }

    /// RFC 4231, those of its cases whose key is text of 16 characters or more, and one of each published length.
    #[test]
    fn the_published_vectors_of_rfc_4231_hold() {
        let key_1 = [0x0b; 20];
        let case_1 = "87aa7cdea5ef619d4ff0b4241a1d6cb02379f4e2ce4ec2787ad0b30545e17cdedaa833b7d6b8a702038b274eaea3f4e4be9d914eeb61f1702e696c203a126854";
        assert_eq!(sign(&secret(&key_1), b"Hi There"), case_1);
        let key_4: Vec<u8> = (1..=25).collect();
        let case_4 = "b0ba465637458c6990e5a8c5f61d4af7e576d97ff94b872de76f8050361ee3dba91ca5c11aa25eb4d679275cc5788063a5f19741120c4f2de2adebeb10a298dd";
        assert_eq!(sign(&secret(&key_4), &[0xcd; 50]), case_4);
    }

    /// The cases whose keys are no text, or shorter than Azure Pipelines allows: the same code without that rule.
    #[test]
    fn the_other_vectors_of_rfc_4231_hold_for_the_same_hmac() {
        let of = |key: &[u8], data: &[u8]| {
            let mut mac = Hmac::<Sha512>::new_from_slice(key).unwrap();
            mac.update(data);
            mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        for (key, data, want) in [
            (
                &b"Jefe"[..],
                &b"what do ya want for nothing?"[..],
                "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea2505549758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737",
            ),
            (
                &[0xaa; 20],
                &[0xdd; 50],
                "fa73b0089d56a284efb0f0756c890be9b1b5dbdd8ee81a3655f83e33b2279d39bf3e848279a722c806b485a47e67c807b946a337bee8942674278859e13292fb",
            ),
            (
                &[0xaa; 131],
                b"Test Using Larger Than Block-Size Key - Hash Key First",
                "80b24263c7c1a3ebb71493c1dd7be8b49b46d1f41b4aeec1121b013783f8f3526b56d037e05f2598bd0fd2215d6a1e5295e64f73f63f0aec8b915a985d786598",
            ),
        ] {
            assert_eq!(of(key, data), want);
        }
    }

    #[test]
    fn p1_what_is_no_signature_is_refused_and_never_a_crash() {
        let secrets = [secret(b"0123456789abcdef")];
        let right = sign(&secrets[0], b"{}");
        assert_eq!(verify(&secrets, Some(right.as_bytes()), b"{}"), Ok(()));
        assert_eq!(verify(&secrets, Some(right.to_uppercase().as_bytes()), b"{}"), Ok(()));
        assert_eq!(verify(&secrets, None, b"{}"), Err(SignatureError::Missing));
        let zs = "z".repeat(128);
        for bad in [&b""[..], b"0", b"not hex", &[0xff; 128], zs.as_bytes(), &right.as_bytes()[..126]] {
            assert_eq!(verify(&secrets, Some(bad), b"{}"), Err(SignatureError::NotHex), "{bad:?}");
        }
        assert_eq!(verify(&secrets, Some(right.as_bytes()), b"{ }"), Err(SignatureError::Wrong));
        assert_eq!(verify(&[], Some(right.as_bytes()), b"{}"), Err(SignatureError::Wrong));
    }

    #[test]
    fn while_a_secret_is_changed_both_are_accepted_and_afterwards_the_new_one_only() {
        let (old, new) = (secret(b"the old secret: 1"), secret(b"the new secret: 2"));
        let signed = |secret: &SharedSecret| sign(secret, b"x").into_bytes();
        let both = [old.clone(), new.clone()];
        for secret in &both {
            assert_eq!(verify(&both, Some(&signed(secret)), b"x"), Ok(()));
        }
        assert_eq!(verify(std::slice::from_ref(&new), Some(&signed(&old)), b"x"), Err(SignatureError::Wrong));
    }
}
