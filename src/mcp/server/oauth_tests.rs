//! Tokens that are signed here, with a key that is made here.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::{EncodingKey, Header, encode, get_current_timestamp};
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};

use super::*;

const ISSUER: &str = "https://issuer.example";
const RESOURCE: &str = "https://code.example/mcp";

/// A pair of keys: what signs, and the set with the public one.
fn keys(kid: &str) -> (EncodingKey, Value) {
    let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    let pair = Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
    let public = BASE64_URL_SAFE_NO_PAD.encode(pair.public_key().as_ref());
    let key = json!({"kty": "OKP", "crv": "Ed25519", "x": public, "kid": kid, "alg": "EdDSA", "use": "sig"});
    (EncodingKey::from_ed_der(document.as_ref()), key)
}

fn oauth(keys: Value, scopes: &[&str]) -> Result<Oauth, String> {
    let file = std::env::temp_dir().join(format!("scomp-jwks-{}.json", uuid::Uuid::new_v4()));
    std::fs::write(&file, json!({"keys": keys}).to_string()).unwrap();
    let loaded = Oauth::load(OauthSettings {
        issuer: ISSUER.to_owned(),
        resource: RESOURCE.to_owned(),
        keys: file.clone(),
        scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
        policy: Policy::default(),
        quotas: Quotas::default(),
    });
    std::fs::remove_file(file).unwrap();
    loaded
}

fn claims() -> Value {
    json!({"iss": ISSUER, "aud": RESOURCE, "sub": "ann", "exp": get_current_timestamp() + 600, "scope": "mcp other"})
}

fn sign(key: &EncodingKey, kid: &str, claims: &Value) -> String {
    let header = Header { kid: Some(kid.to_owned()), ..Header::new(Algorithm::EdDSA) };
    encode(&header, claims, key).unwrap()
}

#[test]
fn token_of_the_issuer_stands_for_its_subject() {
    let (key, public) = keys("one");
    let oauth = oauth(json!([public]), &["mcp"]).unwrap();
    let token = sign(&key, "one", &claims());
    let principal = oauth.admit(&token).unwrap();
    assert_eq!(principal.name, "oauth:ann");
    // The same account: quotas hold over all requests.
    assert!(Arc::ptr_eq(&principal, &oauth.admit(&token).unwrap()) && is_jwt(&token));
}

#[test]
fn token_with_a_wrong_claim_is_refused() {
    let (key, public) = keys("one");
    let oauth = oauth(json!([public]), &["mcp"]).unwrap();
    let refusal = |field: &str, value: Value| {
        let mut claims = claims();
        claims[field] = value;
        oauth.admit(&sign(&key, "one", &claims)).unwrap_err()
    };
    let now = get_current_timestamp();
    for (field, value) in [
        ("iss", json!("https://other.example")),
        ("aud", json!("https://code.example/other")),
        ("exp", json!(now - 3600)),
        ("nbf", json!(now + 3600)),
        ("sub", json!("")),
        ("sub", json!("a\nb")),
        ("sub", json!("x".repeat(SUBJECT_BYTES_MAX + 1))),
    ] {
        assert_eq!(refusal(field, value.clone()), OauthRefusal::Invalid, "{field}: {value}");
    }
    assert_eq!(refusal("scope", json!("other")), OauthRefusal::Scope);
}

#[test]
fn token_of_another_key_is_refused() {
    let (_, public) = keys("one");
    let (other, _) = keys("one");
    let oauth = oauth(json!([public]), &[]).unwrap();
    assert_eq!(oauth.admit(&sign(&other, "one", &claims())).unwrap_err(), OauthRefusal::Invalid);
    // The public key is no secret, so a token that is signed with it as one proves nothing.
    let forged =
        encode(&Header::default(), &claims(), &EncodingKey::from_secret(public.to_string().as_bytes()));
    assert_eq!(oauth.admit(&forged.unwrap()).unwrap_err(), OauthRefusal::Invalid);
    for garbage in ["", "ey.ey.ey", &"e".repeat(TOKEN_BYTES_MAX + 1)] {
        assert_eq!(oauth.admit(garbage).unwrap_err(), OauthRefusal::Invalid);
    }
}

#[test]
fn key_set_without_a_public_key_is_refused() {
    let secret = json!([{"kty": "oct", "k": "c2VjcmV0", "alg": "HS256"}]);
    assert!(oauth(secret, &[]).err().unwrap().contains("expected a key set"));
    assert!(oauth(json!([]), &[]).is_err());
}

#[test]
fn challenge_names_metadata_error_and_scopes() {
    let (_, public) = keys("one");
    let oauth = oauth(json!([public]), &["mcp"]).unwrap();
    let challenge = oauth.challenge("https://code.example/.well-known/x", Some(OauthRefusal::Scope));
    assert_eq!(
        challenge,
        "Bearer resource_metadata=\"https://code.example/.well-known/x\", error=\"insufficient_scope\", scope=\"mcp\""
    );
    assert_eq!(oauth.metadata()["authorization_servers"], json!([ISSUER]));
}
