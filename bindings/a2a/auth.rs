//! The token of a gateway: the word itself, or a JWT that was signed with it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde_json::Value;
use subtle::ConstantTimeEq as _;

use super::codes::{ErrorCode, Refusal};

/// What a client must know. Only hashes are compared, so that time tells nothing of it.
pub(crate) struct Token {
    key: hmac::Key,
    proof: hmac::Tag,
}

/// What a token stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Credentials {
    /// Whom a JWT was issued to, if it says so.
    pub(crate) subject: Option<String>,
    /// When the connection ends.
    pub(crate) expires_ms: Option<u64>,
}

/// What a client gets whose token is too old, at the start or in the middle of a connection.
pub(crate) fn expired() -> Refusal {
    Refusal::new(ErrorCode::TokenExpired, "the token has expired")
}

impl Token {
    /// The token of the configuration.
    pub(crate) fn new(secret: &str) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        let proof = hmac::sign(&key, secret.as_bytes());
        Self { key, proof }
    }

    /// Checks what a client shows, and says what it stands for.
    pub(crate) fn check(&self, shown: &str, now_ms: u64) -> Result<Credentials, Refusal> {
        let tag = hmac::sign(&self.key, shown.as_bytes());
        if bool::from(tag.as_ref().ct_eq(self.proof.as_ref())) {
            return Ok(Credentials { subject: None, expires_ms: None });
        }
        let claims = self.claims(shown).ok_or_else(|| Refusal::new(ErrorCode::AuthFailed, "wrong token"))?;
        let time = |claim: &str| match claims.get(claim) {
            None | Some(Value::Null) => Ok(None),
            Some(seconds) => seconds.as_f64().map(|seconds| Some(seconds * 1000.0)).ok_or_else(|| {
                Refusal::new(ErrorCode::AuthFailed, format!("{claim} of the token: expected seconds"))
            }),
        };
        let (begins, ends) = (time("nbf")?, time("exp")?);
        let now = now_ms as f64;
        if begins.is_some_and(|begins| now < begins) {
            return Err(Refusal::new(ErrorCode::AuthFailed, "the token is not valid yet"));
        }
        if ends.is_some_and(|ends| now >= ends) {
            return Err(expired());
        }
        let subject = claims.get("sub").and_then(Value::as_str).map(str::to_owned);
        Ok(Credentials { subject, expires_ms: ends.map(|ends| ends as u64) })
    }

    /// The claims of a JWT with a good signature. The signature comes first: what is in a forged one is of no interest.
    fn claims(&self, shown: &str) -> Option<Value> {
        let (signed, signature) = shown.rsplit_once('.')?;
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
    use super::super::testing::jwt;
    use super::*;
    use serde_json::json;

    fn outcome(shown: &str) -> Result<(), &'static str> {
        let checked = Token::new("secret-token").check(shown, 1_000_000);
        checked.map(|_| ()).map_err(|refusal| refusal.code.name())
    }

    #[test]
    fn jwt_says_whom_it_was_issued_to_and_when_it_ends() {
        let shown = jwt("secret-token", &json!({"alg": "HS256"}), &json!({"sub": "ada", "exp": 1001.5}));
        let credentials = Token::new("secret-token").check(&shown, 1_000_000).unwrap();
        let expected = Credentials { subject: Some("ada".to_owned()), expires_ms: Some(1_001_500) };
        assert_eq!(credentials, expected);
        let plain = Token::new("secret-token").check("secret-token", 0).unwrap();
        assert_eq!(plain, Credentials { subject: None, expires_ms: None });
    }

    #[test]
    fn jwt_with_a_time_that_is_not_a_number_is_refused() {
        let shown = jwt("secret-token", &json!({"alg": "HS256"}), &json!({"exp": "2040-01-01"}));
        assert_eq!(outcome(&shown), Err("AUTH_FAILED"));
    }

    #[test]
    fn the_word_itself_will_do_and_no_other() {
        assert_eq!(outcome("secret-token"), Ok(()));
        for wrong in ["", "secret-toke", "secret-token ", "Secret-token", "a.b.c", "..", "."] {
            assert_eq!(outcome(wrong), Err("AUTH_FAILED"), "{wrong}");
        }
    }

    #[test]
    fn a_signed_token_will_do_until_it_expires() {
        let header = json!({"alg": "HS256", "typ": "JWT"});
        assert_eq!(outcome(&jwt("secret-token", &header, &json!({"sub": "x"}))), Ok(()));
        assert_eq!(outcome(&jwt("secret-token", &header, &json!({"exp": 1001}))), Ok(()));
        assert_eq!(outcome(&jwt("secret-token", &header, &json!({"exp": 1000}))), Err("TOKEN_EXPIRED"));
        assert_eq!(outcome(&jwt("secret-token", &header, &json!({"nbf": 1001}))), Err("AUTH_FAILED"));
    }

    #[test]
    fn a_forged_token_is_wrong_before_it_is_old() {
        let header = json!({"alg": "HS256"});
        assert_eq!(outcome(&jwt("another", &header, &json!({"exp": 1}))), Err("AUTH_FAILED"));
        assert_eq!(outcome(&jwt("secret-token", &json!({"alg": "none"}), &json!({}))), Err("AUTH_FAILED"));
        assert_eq!(outcome(&jwt("secret-token", &header, &json!([]))), Err("AUTH_FAILED"));
    }
}
