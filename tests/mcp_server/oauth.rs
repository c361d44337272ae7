//! Access tokens of an authorization server at the endpoint.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, get_current_timestamp};
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use scomp::server::settings::{McpSettings, OauthSettings};
use serde_json::{Value, json};

use crate::http::Endpoint;
use crate::support::Folder;
use crate::support::principals::token_of;

const ISSUER: &str = "https://issuer.example";
const RESOURCE: &str = "https://code.example/mcp";

/// An endpoint that trusts a key, and the key. `principals` have tokens of the server itself.
async fn start(principals: &[&str]) -> (Endpoint, EncodingKey) {
    let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    let pair = Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
    let public = BASE64_URL_SAFE_NO_PAD.encode(pair.public_key().as_ref());
    let keys = json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "x": public, "alg": "EdDSA"}]}).to_string();
    let folder = Folder::with(&[("jwks.json", &keys)]);
    let oauth = OauthSettings {
        issuer: ISSUER.to_owned(),
        resource: RESOURCE.to_owned(),
        keys: folder.path().join("jwks.json"),
        scopes: vec!["mcp".to_owned()],
        policy: scomp::binding::Policy::default(),
        quotas: scomp::quota::Quotas::default(),
    };
    let settings = McpSettings { oauth: Some(oauth), ..McpSettings::default() };
    (Endpoint::start(settings, principals).await, EncodingKey::from_ed_der(document.as_ref()))
}

fn token(key: &EncodingKey, subject: &str, scope: &str) -> String {
    let expires = get_current_timestamp() + 600;
    let claims = json!({"iss": ISSUER, "aud": RESOURCE, "sub": subject, "exp": expires, "scope": scope});
    encode(&Header::new(Algorithm::EdDSA), &claims, key).unwrap()
}

async fn run(endpoint: &Endpoint, token: &str, arguments: Value) -> Value {
    let params = json!({"name": "execute", "arguments": arguments});
    endpoint.request(token, "tools/call", params, json!({})).await.message()["result"].clone()
}

#[tokio::test]
async fn access_token_opens_sessions_of_its_subject() {
    let (endpoint, key) = start(&["own"]).await;
    let (ann, bob) = (token(&key, "ann", "mcp"), token(&key, "bob", "mcp more"));
    let first = run(&endpoint, &ann, json!({"code": "globalThis.x = 1"})).await;
    let session = &first["structuredContent"]["session"];
    let again = run(&endpoint, &ann, json!({"code": "x + 1", "session": session})).await;
    assert_eq!(again["structuredContent"]["value"], 2);
    let foreign = run(&endpoint, &bob, json!({"code": "x + 1", "session": session})).await;
    assert_eq!(foreign["isError"], true, "{foreign}");
    let own = run(&endpoint, &token_of("own"), json!({"code": "3"})).await;
    assert_eq!(own["structuredContent"]["value"], 3);
}

#[tokio::test]
async fn refusal_names_the_metadata_of_the_resource() {
    for principals in [&["own"][..], &[]] {
        let (endpoint, key) = start(principals).await;
        let wrong_scope = format!("Bearer {}", token(&key, "ann", "other"));
        let forged = format!("{}x", wrong_scope);
        for (headers, status) in [
            (vec![], 401),
            (vec![("Authorization", "Bearer unknown")], 401),
            (vec![("Authorization", forged.as_str())], 401),
            (vec![("Authorization", wrong_scope.as_str())], 403),
        ] {
            let refused = endpoint.send("POST", &headers, "{}").await;
            assert_eq!(refused.status, status, "{refused:?}");
            let challenge = refused.header("WWW-Authenticate").unwrap();
            let metadata = "resource_metadata=\"https://code.example/.well-known/oauth-protected-resource\"";
            assert!(challenge.contains(metadata), "{challenge}");
        }
        let path = "/.well-known/oauth-protected-resource";
        let document = endpoint.send_to(path, "GET", &[], "").await.message();
        assert_eq!(
            (&document["resource"], &document["authorization_servers"][0]),
            (&json!(RESOURCE), &json!(ISSUER))
        );
    }
}
