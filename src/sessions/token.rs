//! The token that proves a client may resume its session.
//!
//! Only the client has the token itself; the server keeps a hash of it. A token is random enough that a plain hash tells
//! nothing about it, so that a copy of the session table resumes no session.

use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;
use uuid::Uuid;

/// A new token, 244 random bits.
pub(super) fn random_token() -> String {
    let mut text = vec![0; 64];
    let (first, second) = text.split_at_mut(32);
    Uuid::new_v4().simple().encode_lower(first);
    Uuid::new_v4().simple().encode_lower(second);
    // Hexadecimal digits.
    String::from_utf8(text).unwrap_or_default()
}

/// The hash of a token.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct TokenHash([u8; SHA256_OUTPUT_LEN]);

impl TokenHash {
    /// The hash of this token.
    pub(super) fn new(token: &str) -> Self {
        let mut hash = [0; SHA256_OUTPUT_LEN];
        hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        Self(hash)
    }

    fn is_same(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

/// The token that is good now, and the one before until the new one is known to have arrived.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct TokenHashes {
    current: TokenHash,
    previous: Option<TokenHash>,
}

impl TokenHashes {
    /// Those of a new session.
    pub(super) fn new(first: TokenHash) -> Self {
        Self { current: first, previous: None }
    }

    /// Whether a client that shows a token with this hash may resume.
    pub(super) fn accept(&self, shown: &TokenHash) -> bool {
        let current = self.current.is_same(shown);
        let previous = self.previous.as_ref().is_some_and(|previous| previous.is_same(shown));
        current | previous
    }

    /// Puts a new token in place for a client that showed `shown`, which stays good until the new one is confirmed.
    pub(super) fn rotate(&mut self, shown: TokenHash, next: TokenHash) {
        (self.current, self.previous) = (next, Some(shown));
    }

    /// The client has the current token.
    pub(super) fn confirm(&mut self) {
        self.previous = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_before_is_good_until_the_new_one_is_confirmed() {
        let [first, second, third] = ["first", "second", "third"].map(TokenHash::new);
        let mut tokens = TokenHashes::new(first);
        tokens.rotate(first, second);
        assert!(tokens.accept(&first) && tokens.accept(&second));
        tokens.rotate(first, third);
        assert!(tokens.accept(&first) && !tokens.accept(&second) && tokens.accept(&third));
        tokens.confirm();
        assert!(!tokens.accept(&first) && tokens.accept(&third));
        assert!(!tokens.accept(&TokenHash::new("")));
    }

    #[test]
    fn random_tokens_differ_and_are_64_digits() {
        let (token, other) = (random_token(), random_token());
        assert!(token.len() == 64 && token.bytes().all(|byte| byte.is_ascii_hexdigit()), "{token}");
        assert_ne!(token, other);
    }
}
