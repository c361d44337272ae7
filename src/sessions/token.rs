//! The token that proves a client may resume its session.

use subtle::ConstantTimeEq as _;
use uuid::Uuid;

/// The token that is good now, and the one before until the new one is known to have arrived.
#[derive(Debug)]
pub(crate) struct Tokens {
    current: String,
    previous: Option<String>,
}

impl Tokens {
    /// A first token.
    pub(crate) fn new() -> (Self, String) {
        let token = random_token();
        (Self { current: token.clone(), previous: None }, token)
    }

    /// Whether a client that shows this token may resume.
    pub(crate) fn accepts(&self, shown: &str) -> bool {
        let current = same(&self.current, shown);
        let previous = self.previous.as_deref().is_some_and(|previous| same(previous, shown));
        current | previous
    }

    /// A new token for a client that showed `shown`, which stays good until the new one is confirmed.
    pub(crate) fn rotate(&mut self, shown: &str) -> String {
        let token = random_token();
        self.current.clone_from(&token);
        self.previous = Some(shown.to_owned());
        token
    }

    /// The client has the current token.
    pub(crate) fn confirm(&mut self) {
        self.previous = None;
    }
}

fn same(known: &str, shown: &str) -> bool {
    known.as_bytes().ct_eq(shown.as_bytes()).into()
}

/// 244 random bits.
fn random_token() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_before_is_good_until_the_new_one_is_confirmed() {
        let (mut tokens, first) = Tokens::new();
        let second = tokens.rotate(&first);
        assert!(tokens.accepts(&first) && tokens.accepts(&second));
        let third = tokens.rotate(&first);
        assert!(tokens.accepts(&first) && !tokens.accepts(&second) && tokens.accepts(&third));
        tokens.confirm();
        assert!(!tokens.accepts(&first) && tokens.accepts(&third));
        assert!(!tokens.accepts(""));
    }
}
