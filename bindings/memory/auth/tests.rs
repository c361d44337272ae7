//! Signed `session.open` requests of this and of another implementation.

use serde_json::{Value, json};

use super::*;

const NOW: u64 = 1_782_000_100;

fn challenge() -> Challenge {
    Challenge { value: "c".repeat(64), expires_at: NOW + VALIDITY_SECONDS }
}

fn vectors() -> Value {
    serde_json::from_str(include_str!("../../../tests/interop/memory/vectors/memory-hashes.json")).unwrap()
}

fn identity() -> Identity {
    Identity::from_seed(&(0..32).collect::<Vec<u8>>()).unwrap()
}

fn sign_open(
    space: &str,
    protocol: &str,
    session: &Data,
    at: u64,
    audience_and_challenge: Option<(&str, &str)>,
) -> (Data, Data) {
    let (invocation, signature) = identity().sign_open(protocol, space, session, audience_and_challenge, at);
    (invocation, object([("signature", encode_bytes(&signature))]))
}

fn check(invocation: &Data, authorization: &Data, session: &Data, strict: bool) -> Result<String, AuthError> {
    let did = identity().did().to_owned();
    let challenge = challenge();
    let context = OpenContext {
        protocol: "memory",
        space: &did,
        session,
        audience: "here",
        challenge: &challenge,
        is_strict: strict,
        now_seconds: NOW,
    };
    verify(Some(invocation), Some(authorization), &context)
}

#[test]
fn identity_did_encodes_its_public_key() {
    assert_eq!(identity().did(), vectors()["did"].as_str().unwrap());
    assert!(public_key(identity().did()).is_ok());
    assert!(Identity::from_seed(&[1; 31]).is_none());
}

#[test]
fn open_signed_by_another_implementation_is_accepted() {
    for vector in vectors()["session_open"].as_array().unwrap() {
        let invocation = Data::from_tagged(vector["invocation"].clone());
        let session = Data::from_tagged(vector["invocation"]["args"]["session"].clone());
        let authorization = Data::from_tagged(json!({"signature": vector["wire_signature"]}));
        assert_eq!(check(&invocation, &authorization, &session, false).as_deref(), Ok(identity().did()));
    }
}

#[test]
fn signature_as_numbers_is_accepted() {
    let session = object([]);
    let (invocation, authorization) = sign_open(identity().did(), "memory", &session, NOW, None);
    let Some(Data::Tag(_, state)) = authorization.get("signature") else { panic!("expected bytes") };
    let bytes = decode_base64(state.as_str().unwrap());
    let list = Data::List(bytes.iter().map(|byte| u64::from(*byte).into()).collect());
    let keyed = Data::Map(
        bytes.iter().enumerate().map(|(at, byte)| (at.to_string(), u64::from(*byte).into())).collect(),
    );
    for signature in [list, keyed] {
        let authorization = object([("signature", signature)]);
        assert!(check(&invocation, &authorization, &session, false).is_ok());
    }
}

#[test]
fn open_with_any_wrong_part_is_rejected() {
    let session = object([("sessionId", "s1".into())]);
    let did = identity().did().to_owned();
    let sign = sign_open;
    let good_challenge = challenge().value;
    let good = Some(("here", good_challenge.as_str()));
    let cases = [
        (sign(&did, "memory", &session, NOW, good), Ok(did.clone())),
        (sign("did:key:zOther", "memory", &session, NOW, good), Err(AuthError::Mismatch("sub"))),
        (sign(&did, "memory/v2", &session, NOW, good), Err(AuthError::Mismatch("args.protocol"))),
        (sign(&did, "memory", &object([]), NOW, good), Err(AuthError::Mismatch("args.session"))),
        (sign(&did, "memory", &session, NOW - 421, good), Err(AuthError::Expired)),
        (sign(&did, "memory", &session, NOW - 420, good), Ok(did.clone())),
        (
            sign(&did, "memory", &session, NOW, Some(("elsewhere", &good_challenge))),
            Err(AuthError::Mismatch("aud")),
        ),
        (sign(&did, "memory", &session, NOW, Some(("here", "other"))), Err(AuthError::Challenge)),
        (sign(&did, "memory", &session, NOW, None), Err(AuthError::Required("audience"))),
    ];
    for ((invocation, authorization), outcome) in cases {
        assert_eq!(check(&invocation, &authorization, &session, true), outcome);
    }
}

#[test]
fn wrong_signature_and_malformed_did_have_different_names() {
    let session = object([]);
    let (mut invocation, authorization) = sign_open(identity().did(), "memory", &session, NOW, None);
    let Data::Map(members) = &mut invocation else { panic!("expected an object") };
    members.insert("iat".to_owned(), (NOW - 1).into());
    assert_eq!(check(&invocation, &authorization, &session, false), Err(AuthError::Signature));
    let Data::Map(members) = &mut invocation else { panic!("expected an object") };
    members.insert("iss".to_owned(), "did:key:z0OIl".into());
    let error = check(&invocation, &authorization, &session, false).unwrap_err();
    assert_eq!(error.name(), "ProtocolError");
    assert_eq!(AuthError::Challenge.name(), "AuthorizationError");
    assert!(AuthError::Challenge.is_retriable() && !AuthError::Missing.is_retriable());
}

#[test]
fn did_past_its_length_limit_is_rejected() {
    let did = format!("{DID_PREFIX}{}", "1".repeat(DID_BYTES_MAX - DID_PREFIX.len()));
    assert!(public_key(&did).is_err());
    assert!(public_key(&format!("{did}1")).is_err());
}

#[test]
fn principal_identity_depends_on_secret_and_name_only() {
    let ada = Identity::for_principal(b"secret", "ada").unwrap();
    assert_eq!(ada.did(), Identity::for_principal(b"secret", "ada").unwrap().did());
    assert_ne!(ada.did(), Identity::for_principal(b"secret", "bob").unwrap().did());
    assert_ne!(ada.did(), Identity::for_principal(b"other", "ada").unwrap().did());
}

proptest::proptest! {
    #[test]
    fn base58_round_trips(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..40)) {
        proptest::prop_assert_eq!(decode_base58(&encode_base58(&bytes)), Some(bytes));
    }
}
