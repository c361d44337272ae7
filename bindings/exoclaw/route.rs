//! Which agent a message goes to, and which session it belongs to.
//!
//! A rule applies when all that it states fits; of several, the most particular wins: peer before guild, team, account
//! and channel, and the first of equals. A session is the four names together and not the key that is shown for it: a
//! colon inside a name would let one account into another's conversation.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::wire::Origin;

/// The agent of messages to which no rule applies.
pub(crate) const AGENT_DEFAULT: &str = "default";

/// A rule of the configuration.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Rule {
    pub(crate) agent: String,
    pub(crate) channel: Option<String>,
    pub(crate) account: Option<String>,
    pub(crate) peer: Option<String>,
    pub(crate) guild: Option<String>,
    pub(crate) team: Option<String>,
}

impl Rule {
    fn fits(&self, origin: &Origin) -> bool {
        let fits = |wanted: &Option<String>, given: Option<&String>| {
            wanted.as_ref().is_none_or(|wanted| Some(wanted) == given)
        };
        fits(&self.channel, Some(&origin.channel))
            && fits(&self.account, Some(&origin.account))
            && fits(&self.peer, Some(&origin.peer))
            && fits(&self.guild, origin.guild.as_ref())
            && fits(&self.team, origin.team.as_ref())
    }

    /// Compares as its members do, from the most particular on.
    fn weight(&self) -> [bool; 5] {
        [&self.peer, &self.guild, &self.team, &self.account, &self.channel].map(Option::is_some)
    }
}

/// The rules of a gateway.
#[derive(Debug, Default)]
pub(crate) struct Router {
    rules: Vec<Rule>,
    is_strict: bool,
}

impl Router {
    /// A strict one has no agent for messages to which no rule applies.
    pub(crate) fn new(rules: Vec<Rule>, is_strict: bool) -> Self {
        Self { rules, is_strict }
    }

    /// The session of a principal's message; `None` if there is no agent for it.
    pub(crate) fn session(&self, origin: &Origin, principal: &str) -> Option<SessionId> {
        let mut best: Option<&Rule> = None;
        for rule in self.rules.iter().filter(|rule| rule.fits(origin)) {
            if best.is_none_or(|best| rule.weight() > best.weight()) {
                best = Some(rule);
            }
        }
        let agent = match best {
            Some(rule) => rule.agent.clone(),
            None if self.is_strict => return None,
            None => AGENT_DEFAULT.to_owned(),
        };
        Some(SessionId {
            principal: principal.to_owned(),
            agent,
            channel: origin.channel.clone(),
            account: origin.account.clone(),
            peer: origin.peer.clone(),
        })
    }
}

/// The answer to a message that no agent takes.
pub(crate) fn no_agent(origin: &Origin) -> String {
    format!("no agent configured for {}:{}:{}", origin.channel, origin.account, origin.peer)
}

/// A conversation of one peer with one agent.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub(crate) struct SessionId {
    /// Whose clients talk there. Not part of the key that is shown: each principal sees its own sessions only.
    #[serde(skip)]
    pub(crate) principal: String,
    pub(crate) agent: String,
    pub(crate) channel: String,
    pub(crate) account: String,
    pub(crate) peer: String,
}

impl fmt::Display for SessionId {
    /// Its key, as it is shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}:{}", self.agent, self.channel, self.account, self.peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn router(rules: serde_json::Value) -> Router {
        Router::new(serde_json::from_value(rules).unwrap(), false)
    }

    fn origin(channel: &str, account: &str, peer: &str) -> Origin {
        let (channel, account, peer) = (channel.to_owned(), account.to_owned(), peer.to_owned());
        Origin { channel, account, peer, guild: None, team: None }
    }

    fn agent(router: &Router, origin: &Origin) -> String {
        router.session(origin, "p").unwrap().agent
    }

    #[test]
    fn the_most_particular_rule_wins_wherever_it_stands() {
        let router = router(json!([
            {"agent": "c", "channel": "x"}, {"agent": "a", "account": "u"}, {"agent": "t", "team": "T"},
            {"agent": "g", "guild": "G"}, {"agent": "p", "peer": "P"}, {"agent": "late", "peer": "P"},
        ]));
        let mut from = origin("x", "other", "main");
        assert_eq!(agent(&router, &from), "c");
        from.account = "u".to_owned();
        assert_eq!(agent(&router, &from), "a");
        from.team = Some("T".to_owned());
        assert_eq!(agent(&router, &from), "t");
        from.guild = Some("G".to_owned());
        assert_eq!(agent(&router, &from), "g");
        from.peer = "P".to_owned();
        assert_eq!(agent(&router, &from), "p");
    }

    #[test]
    fn all_that_a_rule_states_must_fit() {
        let router = router(json!([
            {"agent": "work", "channel": "whatsapp", "peer": "group"}, {"agent": "d", "channel": "discord", "guild": "G"},
        ]));
        assert_eq!(agent(&router, &origin("whatsapp", "u", "group")), "work");
        assert_eq!(agent(&router, &origin("telegram", "u", "group")), AGENT_DEFAULT);
        assert_eq!(agent(&router, &origin("discord", "u", "main")), AGENT_DEFAULT);
    }

    #[test]
    fn a_strict_router_has_no_agent_of_last_resort() {
        let from = origin("w", "a", "main");
        assert_eq!(Router::new(Vec::new(), true).session(&from, "p"), None);
        assert_eq!(no_agent(&from), "no agent configured for w:a:main");
    }

    #[test]
    fn the_key_is_made_of_agent_channel_account_and_peer() {
        let session = Router::default().session(&origin("w", "a", "main"), "p").unwrap();
        assert_eq!(session.to_string(), "default:w:a:main");
    }

    #[test]
    fn colons_do_not_let_sessions_collide() {
        let router = Router::default();
        let (one, other) =
            (router.session(&origin("w", "a:b", "c"), "p"), router.session(&origin("w", "a", "b:c"), "p"));
        assert_ne!(one, other);
    }

    proptest! {
        #[test]
        fn no_rule_that_fits_is_more_particular_than_the_one_taken(
            rules in proptest::collection::vec(proptest::array::uniform5(proptest::option::of("[ab]")), 0..8),
            given in proptest::array::uniform5("[ab]"),
        ) {
            let rules: Vec<Rule> = rules.into_iter().enumerate().map(|(at, [channel, account, peer, guild, team])| {
                Rule { agent: at.to_string(), channel, account, peer, guild, team }
            }).collect();
            let [channel, account, peer, guild, team] = given;
            let from = Origin { channel, account, peer, guild: Some(guild), team: Some(team) };
            let agent = Router::new(rules.clone(), false).session(&from, "p").unwrap().agent;
            let fitting: Vec<&Rule> = rules.iter().filter(|rule| rule.fits(&from)).collect();
            match rules.iter().find(|rule| rule.agent == agent) {
                None => prop_assert!(fitting.is_empty()),
                Some(taken) => {
                    prop_assert!(taken.fits(&from));
                    prop_assert!(fitting.iter().all(|rule| rule.weight() <= taken.weight()));
                }
            }
        }
    }
}
