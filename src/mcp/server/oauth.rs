//! The endpoint as a protected resource of OAuth: access tokens of a configured issuer, as JWTs.
//!
//! Tokens are checked with the issuer's public keys, from a file: the server asks no other machine. Only signatures with
//! public keys are accepted, and a key is used with its own algorithm only.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, JwkSet};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::binding::{Policy, Principal, Roles};
use crate::quota::Quotas;

/// Longest token that is looked at.
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// Subjects whose principals are remembered, with what they use of their quotas. Past it the oldest one starts over.
const SUBJECTS_MAX: usize = 10_000;

/// Longest subject: it is the name of a principal.
const SUBJECT_BYTES_MAX: usize = 256;

/// Before the name of a principal, so that no subject can be named like the principal of a token.
const PRINCIPAL_PREFIX: &str = "oauth:";

/// `[mcp.oauth]`: accept access tokens of an authorization server at `/mcp`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OauthSettings {
    /// The authorization server, as it calls itself in `iss`.
    #[schemars(extend("x-example" = "https://auth.example"))]
    pub issuer: String,
    /// The URL of this endpoint, which has to be in `aud`.
    #[schemars(extend("x-example" = "https://code.example/mcp"))]
    pub resource: String,
    /// A file with the public keys of the issuer, as a JSON Web Key Set.
    #[schemars(extend("x-path" = true, "x-example" = "keys.json"))]
    pub keys: PathBuf,
    /// Scopes that a token needs.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// What the sessions of its principals may do.
    #[serde(default)]
    pub policy: Policy,
    /// How much each of its principals may use.
    #[serde(default)]
    pub quotas: Quotas,
}

/// Why a token is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OauthRefusal {
    /// Not a token of the issuer for this resource, or it has expired.
    Invalid,
    /// A scope is missing.
    Scope,
}

/// Checks access tokens.
pub(crate) struct Oauth {
    settings: OauthSettings,
    keys: Vec<(Option<String>, Algorithm, DecodingKey)>,
    principals: Mutex<Principals>,
}

#[derive(Default)]
struct Principals {
    known: HashMap<String, Arc<Principal>>,
    oldest_first: std::collections::VecDeque<String>,
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
    #[serde(default)]
    scope: Option<String>,
}

impl Oauth {
    /// Reads the keys.
    pub(crate) fn load(settings: OauthSettings) -> Result<Self, String> {
        let place = settings.keys.display();
        let text =
            std::fs::read(&settings.keys).map_err(|error| format!("mcp.oauth.keys: {place}: {error}"))?;
        let set: JwkSet =
            serde_json::from_slice(&text).map_err(|error| format!("mcp.oauth.keys: {place}: {error}"))?;
        let keys: Vec<_> = set.keys.iter().filter_map(read_key).collect();
        if keys.is_empty() {
            return Err(format!(
                "mcp.oauth.keys: {place}: expected a key set with a public key for signatures"
            ));
        }
        Ok(Self { settings, keys, principals: Mutex::default() })
    }

    /// The principal of a valid token.
    pub(crate) fn admit(&self, token: &str) -> Result<Arc<Principal>, OauthRefusal> {
        let claims = self.check(token).ok_or(OauthRefusal::Invalid)?;
        let granted: Vec<&str> = claims.scope.as_deref().unwrap_or_default().split(' ').collect();
        if !self.settings.scopes.iter().all(|scope| granted.contains(&scope.as_str())) {
            return Err(OauthRefusal::Scope);
        }
        Ok(self.principal(claims.sub))
    }

    fn check(&self, token: &str) -> Option<Claims> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let header = decode_header(token).ok()?;
        let mut fitting = self.keys.iter().filter(|(id, algorithm, _)| {
            *algorithm == header.alg && (header.kid.is_none() || id.is_none() || *id == header.kid)
        });
        fitting.find_map(|(_, algorithm, key)| {
            let mut validation = Validation::new(*algorithm);
            validation.set_issuer(&[&self.settings.issuer]);
            validation.set_audience(&[&self.settings.resource]);
            validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
            validation.validate_nbf = true;
            let claims = decode::<Claims>(token, key, &validation).ok()?.claims;
            let is_name = !claims.sub.trim().is_empty() && !claims.sub.chars().any(char::is_control);
            (is_name && claims.sub.len() <= SUBJECT_BYTES_MAX).then_some(claims)
        })
    }

    fn principal(&self, subject: String) -> Arc<Principal> {
        let mut principals = self.principals.lock();
        if let Some(known) = principals.known.get(&subject) {
            return Arc::clone(known);
        }
        if principals.known.len() >= SUBJECTS_MAX
            && let Some(oldest) = principals.oldest_first.pop_front()
        {
            principals.known.remove(&oldest);
        }
        let name = format!("{PRINCIPAL_PREFIX}{subject}");
        let principal = Principal::new(name, self.settings.policy.clone(), self.settings.quotas.clone());
        let principal = Arc::new(principal.with_roles(Roles::default()));
        principals.known.insert(subject.clone(), Arc::clone(&principal));
        principals.oldest_first.push_back(subject);
        principal
    }

    /// The metadata document of the resource.
    pub(crate) fn metadata(&self) -> Value {
        let mut document = json!({
            "resource": self.settings.resource,
            "authorization_servers": [self.settings.issuer],
            "bearer_methods_supported": ["header"],
            "resource_name": "scomp-serve",
        });
        if !self.settings.scopes.is_empty() {
            document["scopes_supported"] = json!(self.settings.scopes);
        }
        document
    }

    /// The URL of the metadata document: on the host of the resource, or, where that is no URL, on the one of the request.
    pub(crate) fn metadata_url(&self, host: &str, path: &str) -> String {
        match url::Url::parse(&self.settings.resource) {
            Ok(resource) if resource.has_host() => {
                format!("{}{path}", resource.origin().ascii_serialization())
            }
            _ => format!("http://{host}{path}"),
        }
    }

    /// `WWW-Authenticate` of a refusal: where the metadata is, and what is wrong.
    pub(crate) fn challenge(&self, metadata_url: &str, refusal: Option<OauthRefusal>) -> String {
        let mut challenge = format!("Bearer resource_metadata=\"{metadata_url}\"");
        match refusal {
            None => {}
            Some(OauthRefusal::Invalid) => challenge.push_str(", error=\"invalid_token\""),
            Some(OauthRefusal::Scope) => challenge.push_str(", error=\"insufficient_scope\""),
        }
        if !self.settings.scopes.is_empty() {
            challenge.push_str(&format!(", scope=\"{}\"", self.settings.scopes.join(" ")));
        }
        challenge
    }

    /// The policy of its principals, to be checked at start.
    pub(crate) fn policy(&self) -> &Policy {
        &self.settings.policy
    }
}

/// A public key for signatures, with its one algorithm.
fn read_key(key: &Jwk) -> Option<(Option<String>, Algorithm, DecodingKey)> {
    let is_secret = matches!(key.algorithm, AlgorithmParameters::OctetKey(_));
    let named = key.common.key_algorithm.and_then(|name| name.to_string().parse().ok());
    let algorithm: Algorithm = named.or(match &key.algorithm {
        AlgorithmParameters::RSA(_) => Some(Algorithm::RS256),
        AlgorithmParameters::EllipticCurve(_) => Some(Algorithm::ES256),
        AlgorithmParameters::OctetKeyPair(_) => Some(Algorithm::EdDSA),
        AlgorithmParameters::OctetKey(_) => None,
    })?;
    let is_symmetric = matches!(algorithm, Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512);
    if is_secret || is_symmetric {
        return None;
    }
    Some((key.common.key_id.clone(), algorithm, DecodingKey::from_jwk(key).ok()?))
}

/// Whether a bearer token has the form of a JWT.
pub(crate) fn is_jwt(token: &str) -> bool {
    token.starts_with("ey") && token.split('.').count() == 3
}

#[cfg(test)]
#[path = "oauth_tests.rs"]
mod tests;
