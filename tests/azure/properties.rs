//! What holds for every body and every signature.

use ::podlayer::azure::{Acquire, Release, SharedSecret, sign, verify};
use proptest::prelude::*;
use serde_json::{Value, json};

/// JSON of any shape, with the keys that are known among its keys, in any case.
fn any_json() -> impl Strategy<Value = Value> {
    let key = prop_oneof![
        Just("AgentId"),
        Just("agentid"),
        Just("AccountId"),
        Just("AgentPool"),
        Just("AgentConfiguration"),
        Just("AGENTCONFIGURATION"),
        Just("AgentSettings"),
        Just("AgentCredentials"),
        Just("AgentDownloadUrls"),
        Just("AgentSpec"),
        Just("AgentData"),
        Just("image"),
        Just("pool"),
        Just("FailRequestUrl"),
        Just("x"),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        "\\PC{0,20}".prop_map(Value::from),
        Just(json!("agent-1")),
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key.clone().prop_map(str::to_owned), inner, 0..8).prop_map(|map| json!(map)),
        ]
    })
}

proptest! {
    #[test]
    fn no_body_makes_the_parsers_panic(body in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = (Acquire::parse(&body), Release::parse(&body));
    }

    #[test]
    fn no_json_makes_the_parsers_panic_and_what_they_take_has_an_id_that_means_itself(value in any_json(), cut in 0..2000usize) {
        let mut body = value.to_string().into_bytes();
        let _ = (Acquire::parse(&body), Release::parse(&body));
        let is_id = |id: &str| {
            (1..=63).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        };
        if let Ok(acquire) = Acquire::parse(&body) {
            prop_assert!(is_id(&acquire.agent.agent_id));
            prop_assert!(Release::parse(&body).is_err(), "nothing is both");
        }
        if let Ok(release) = Release::parse(&body) {
            prop_assert!(is_id(&release.agent.agent_id));
            let has = value.as_object().unwrap().keys().any(|key| key.eq_ignore_ascii_case("AgentConfiguration"));
            prop_assert!(!has);
        }
        body.truncate(cut);
        let _ = (Acquire::parse(&body), Release::parse(&body));
    }

    #[test]
    fn only_a_signature_made_with_a_key_over_this_body_is_taken(
        body in prop::collection::vec(any::<u8>(), 0..200),
        other in prop::collection::vec(any::<u8>(), 0..200),
        keys in prop::collection::vec("[ -~]{16,40}", 1..3),
        foreign in "[ -~]{16,40}",
        header in prop::collection::vec(any::<u8>(), 0..140),
        bit in 0..512usize,
    ) {
        let secret = |text: &String| SharedSecret::new(text.as_bytes()).unwrap();
        let secrets: Vec<SharedSecret> = keys.iter().map(secret).collect();
        for one in &secrets {
            let right = sign(one, &body);
            prop_assert!(verify(&secrets, Some(right.as_bytes()), &body).is_ok());
            prop_assert_eq!(verify(&secrets, Some(right.as_bytes()), &other).is_ok(), body == other);
            // One bit of it.
            let mut bytes = right.clone().into_bytes();
            let digit = char::from(bytes[bit / 4]).to_digit(16).unwrap() ^ (1 << (bit % 4));
            bytes[bit / 4] = u8::try_from(char::from_digit(digit, 16).unwrap()).unwrap();
            prop_assert!(verify(&secrets, Some(&bytes), &body).is_err());
        }
        prop_assert!(verify(&secrets, Some(&header), &body).is_err());
        prop_assert!(verify(&secrets, None, &body).is_err());
        if !keys.contains(&foreign) {
            prop_assert!(verify(&secrets, Some(sign(&secret(&foreign), &body).as_bytes()), &body).is_err());
        }
    }
}
