//! A call of Azure Pipelines, whatever it is: no body and no signature is a crash, no body is an acquire and a release, and
//! no signature is taken that wasn't made with the key.

#![no_main]

use libfuzzer_sys::fuzz_target;
use podlayer::azure::{Acquire, Release, SharedSecret, sign, verify};

fuzz_target!(|input: (Vec<u8>, Vec<u8>)| {
    let (body, header) = input;
    assert!(Acquire::parse(&body).is_err() || Release::parse(&body).is_err());
    let secret = [SharedSecret::new(b"a secret of sixteen or more").expect("long enough")];
    let right = sign(&secret[0], &body);
    assert!(verify(&secret, Some(right.as_bytes()), &body).is_ok());
    let same = header.trim_ascii().eq_ignore_ascii_case(right.as_bytes());
    assert_eq!(verify(&secret, Some(&header), &body).is_ok(), same);
});
