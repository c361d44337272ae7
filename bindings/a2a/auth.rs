//! The token of a gateway: clients present the secret itself, or a JWT that was signed with it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde_json::Value;
use subtle::ConstantTimeEq as _;

use super::codes::{ErrorCode, GatewayError};

/// The configured secret. Only hashes are compared, so that timing does not reveal it.
pub(crate) struct Token {
    key: hmac::Key,
    proof: hmac::Tag,
}

/// What a valid token grants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Credentials {
    /// The `sub` of a JWT.
    pub(crate) subject: Option<String>,
    /// The time at which the connection is closed: the `exp` of a JWT.
    pub(crate) expires_ms: Option<u64>,
}

/// The error for an expired token, when it is presented or later during the connection.
pub(crate) fn token_expired() -> GatewayError {
    GatewayError::new(ErrorCode::TokenExpired, "the token has expired")
}

impl Token {
    pub(crate) fn new(secret: &str) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        let proof = hmac::sign(&key, secret.as_bytes());
        Self { key, proof }
    }

    /// Checks the token that a client presents.
    pub(crate) fn check(&self, presented: &str, now_ms: u64) -> Result<Credentials, GatewayError> {
        let tag = hmac::sign(&self.key, presented.as_bytes());
        if bool::from(tag.as_ref().ct_eq(self.proof.as_ref())) {
            return Ok(Credentials { subject: None, expires_ms: None });
        }
        let claims = self
            .verify_jwt(presented)
            .ok_or_else(|| GatewayError::new(ErrorCode::AuthFailed, "invalid token"))?;
        let time = |claim: &str| match claims.get(claim) {
            None | Some(Value::Null) => Ok(None),
            Some(seconds) => seconds.as_f64().map(|seconds| Some(seconds * 1000.0)).ok_or_else(|| {
                GatewayError::new(ErrorCode::AuthFailed, format!("token.{claim}: expected seconds"))
            }),
        };
        let (begins, ends) = (time("nbf")?, time("exp")?);
        let now = now_ms as f64;
        if begins.is_some_and(|begins| now < begins) {
            return Err(GatewayError::new(ErrorCode::AuthFailed, "the token is not valid yet"));
        }
        if ends.is_some_and(|ends| now >= ends) {
            return Err(token_expired());
        }
        let subject = claims.get("sub").and_then(Value::as_str).map(str::to_owned);
        Ok(Credentials { subject, expires_ms: ends.map(|ends| ends as u64) })
    }

    /// Returns the claims of a JWT. The signature is checked first, before anything else in it is
    /// read.
    fn verify_jwt(&self, presented: &str) -> Option<Value> {
        let (signed, signature) = presented.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        hmac::verify(&self.key, signed.as_bytes(), &signature).ok()?;
        let header: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).ok()?).ok()?;
        (header.get("alg")?.as_str()? == "HS256").then_some(())?;
        let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
        claims.is_object().then_some(claims)
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::sign_jwt;
    use super::*;
    use serde_json::json;

    fn check(presented: &str) -> Result<(), &'static str> {
        let checked = Token::new("secret-token").check(presented, 1_000_000);
        checked.map(|_| ()).map_err(|error| error.code.name())
    }

    #[test]
    fn jwt_yields_its_subject_and_expiry() {
        let token = sign_jwt("secret-token", &json!({"alg": "HS256"}), &json!({"sub": "ada", "exp": 1001.5}));
        let credentials = Token::new("secret-token").check(&token, 1_000_000).unwrap();
        let expected = Credentials { subject: Some("ada".to_owned()), expires_ms: Some(1_001_500) };
        assert_eq!(credentials, expected);
        let plain = Token::new("secret-token").check("secret-token", 0).unwrap();
        assert_eq!(plain, Credentials { subject: None, expires_ms: None });
    }

    #[test]
    fn jwt_with_non_numeric_expiry_is_rejected() {
        let token = sign_jwt("secret-token", &json!({"alg": "HS256"}), &json!({"exp": "2040-01-01"}));
        assert_eq!(check(&token), Err("AUTH_FAILED"));
    }

    #[test]
    fn secret_itself_is_accepted_and_others_rejected() {
        assert_eq!(check("secret-token"), Ok(()));
        for invalid in ["", "secret-toke", "secret-token ", "Secret-token", "a.b.c", "..", "."] {
            assert_eq!(check(invalid), Err("AUTH_FAILED"), "{invalid}");
        }
    }

    #[test]
    fn signed_token_is_accepted_until_it_expires() {
        let header = json!({"alg": "HS256", "typ": "JWT"});
        assert_eq!(check(&sign_jwt("secret-token", &header, &json!({"sub": "x"}))), Ok(()));
        assert_eq!(check(&sign_jwt("secret-token", &header, &json!({"exp": 1001}))), Ok(()));
        assert_eq!(check(&sign_jwt("secret-token", &header, &json!({"exp": 1000}))), Err("TOKEN_EXPIRED"));
        assert_eq!(check(&sign_jwt("secret-token", &header, &json!({"nbf": 1001}))), Err("AUTH_FAILED"));
    }

    #[test]
    fn forged_token_fails_before_its_expiry_is_read() {
        let header = json!({"alg": "HS256"});
        assert_eq!(check(&sign_jwt("another", &header, &json!({"exp": 1}))), Err("AUTH_FAILED"));
        assert_eq!(check(&sign_jwt("secret-token", &json!({"alg": "none"}), &json!({}))), Err("AUTH_FAILED"));
        assert_eq!(check(&sign_jwt("secret-token", &header, &json!([]))), Err("AUTH_FAILED"));
    }
}
