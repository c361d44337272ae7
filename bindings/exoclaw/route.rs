//! Selects the agent and the session of a message.
//!
//! A rule applies when all of its conditions match. Among several, the most specific wins: peer
//! before guild, team, account and channel; among equals, the first. A session is identified by its
//! names and not by the key displayed for it: with a colon inside a name, one account could enter
//! another's conversation.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::wire::Origin;

/// The agent of messages that match no rule.
pub(crate) const AGENT_DEFAULT: &str = "default";

/// Routes matching messages to an agent. Absent conditions match everything.
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
    fn matches(&self, origin: &Origin) -> bool {
        let matches = |condition: &Option<String>, name: Option<&String>| {
            condition.as_ref().is_none_or(|condition| Some(condition) == name)
        };
        matches(&self.channel, Some(&origin.channel))
            && matches(&self.account, Some(&origin.account))
            && matches(&self.peer, Some(&origin.peer))
            && matches(&self.guild, origin.guild.as_ref())
            && matches(&self.team, origin.team.as_ref())
    }

    /// A greater value is more specific.
    fn specificity(&self) -> [bool; 5] {
        [&self.peer, &self.guild, &self.team, &self.account, &self.channel].map(Option::is_some)
    }
}

/// The routing rules of a gateway.
#[derive(Debug, Default)]
pub(crate) struct Router {
    rules: Vec<Rule>,
    is_strict: bool,
}

impl Router {
    /// A strict router has no default agent for messages that match no rule.
    pub(crate) fn new(rules: Vec<Rule>, is_strict: bool) -> Self {
        Self { rules, is_strict }
    }

    /// Returns the session of a principal's message; `None` if no agent takes it.
    pub(crate) fn route(&self, origin: &Origin, principal: &str) -> Option<SessionId> {
        let mut best: Option<&Rule> = None;
        for rule in self.rules.iter().filter(|rule| rule.matches(origin)) {
            if best.is_none_or(|best| rule.specificity() > best.specificity()) {
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

/// The error text for a message that no agent takes.
pub(crate) fn no_agent_error(origin: &Origin) -> String {
    format!("no agent configured for {}:{}:{}", origin.channel, origin.account, origin.peer)
}

/// Identifies the conversation of one peer with one agent.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub(crate) struct SessionId {
    /// The principal of the clients. Not part of the displayed key: each principal sees only its
    /// own sessions.
    #[serde(skip)]
    pub(crate) principal: String,
    pub(crate) agent: String,
    pub(crate) channel: String,
    pub(crate) account: String,
    pub(crate) peer: String,
}

impl fmt::Display for SessionId {
    /// Writes the key that is displayed to clients and in logs.
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
        router.route(origin, "p").unwrap().agent
    }

    #[test]
    fn most_specific_rule_wins_regardless_of_order() {
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
    fn rule_applies_only_if_all_conditions_match() {
        let router = router(json!([
            {"agent": "work", "channel": "whatsapp", "peer": "group"}, {"agent": "d", "channel": "discord", "guild": "G"},
        ]));
        assert_eq!(agent(&router, &origin("whatsapp", "u", "group")), "work");
        assert_eq!(agent(&router, &origin("telegram", "u", "group")), AGENT_DEFAULT);
        assert_eq!(agent(&router, &origin("discord", "u", "main")), AGENT_DEFAULT);
    }

    #[test]
    fn strict_router_rejects_messages_without_a_rule() {
        let from = origin("w", "a", "main");
        assert_eq!(Router::new(Vec::new(), true).route(&from, "p"), None);
        assert_eq!(no_agent_error(&from), "no agent configured for w:a:main");
    }

    #[test]
    fn session_key_joins_agent_channel_account_and_peer() {
        let session = Router::default().route(&origin("w", "a", "main"), "p").unwrap();
        assert_eq!(session.to_string(), "default:w:a:main");
    }

    #[test]
    fn names_with_colons_do_not_collide() {
        let router = Router::default();
        let (one, other) =
            (router.route(&origin("w", "a:b", "c"), "p"), router.route(&origin("w", "a", "b:c"), "p"));
        assert_ne!(one, other);
    }

    proptest! {
        #[test]
        fn no_matching_rule_is_more_specific_than_the_chosen_one(
            rules in proptest::collection::vec(proptest::array::uniform5(proptest::option::of("[ab]")), 0..8),
            names in proptest::array::uniform5("[ab]"),
        ) {
            let rules: Vec<Rule> = rules.into_iter().enumerate().map(|(at, [channel, account, peer, guild, team])| {
                Rule { agent: at.to_string(), channel, account, peer, guild, team }
            }).collect();
            let [channel, account, peer, guild, team] = names;
            let from = Origin { channel, account, peer, guild: Some(guild), team: Some(team) };
            let agent = Router::new(rules.clone(), false).route(&from, "p").unwrap().agent;
            let matching: Vec<&Rule> = rules.iter().filter(|rule| rule.matches(&from)).collect();
            match rules.iter().find(|rule| rule.agent == agent) {
                None => prop_assert!(matching.is_empty()),
                Some(chosen) => {
                    prop_assert!(chosen.matches(&from));
                    prop_assert!(matching.iter().all(|rule| rule.specificity() <= chosen.specificity()));
                }
            }
        }
    }
}
