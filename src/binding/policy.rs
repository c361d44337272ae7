//! Who may use which effects.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Roles;
use crate::quota::{Account, Quotas};

/// What a principal's sessions may do. The default allows everything.
///
/// ```
/// use scomp::binding::Policy;
///
/// // Reads freely, asks before it writes, sends nothing.
/// let policy: Policy = toml::from_str("allow = ['read']\napprove = ['write']\ndeny = ['mail.send']")?;
/// assert!(policy.deny.contains("mail.send"));
/// # Ok::<(), toml::de::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// The effects that are allowed, beside those of `approve`; absent: all.
    #[schemars(extend("x-example" = ["read"]))]
    pub allow: Option<BTreeSet<String>>,
    /// The effects, or bindings by name, that need the client's approval.
    #[schemars(extend("x-example" = ["write"]))]
    pub approve: BTreeSet<String>,
    /// The effects, or bindings by name, that are refused whatever the rest says.
    #[schemars(extend("x-example" = ["external"]))]
    pub deny: BTreeSet<String>,
    /// What a name in `approve` or `deny` means that no loaded package knows: with `refuse` the server does not start,
    /// with `warn` it logs a warning.
    pub unknown: UnknownNames,
}

/// What becomes of a policy that names something unknown: a misspelled name would protect from nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UnknownNames {
    /// The server does not start.
    #[default]
    Refuse,
    /// The server starts and logs a warning: for a policy that several servers share, or for packages that come and go.
    Warn,
}

/// What a policy decides for a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The call is made.
    Allow,
    /// The client has to approve it first.
    Ask,
    /// The call is refused, for this reason.
    Deny(String),
}

impl Decision {
    /// Its name in the audit log.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny(_) => "deny",
        }
    }
}

impl Policy {
    /// Decides about a call of `binding`, which has these effects.
    pub(crate) fn decide(&self, binding: &str, effects: &[String]) -> Decision {
        if self.deny.contains(binding) {
            return Decision::Deny(format!("{binding} is not allowed here"));
        }
        if let Some(effect) = effects.iter().find(|effect| self.deny.contains(*effect)) {
            return Decision::Deny(format!("{binding} has the effect `{effect}`, which is not allowed here"));
        }
        if let Some(allowed) = &self.allow
            && let Some(effect) =
                effects.iter().find(|effect| !allowed.contains(*effect) && !self.approve.contains(*effect))
        {
            return Decision::Deny(format!("{binding} has the effect `{effect}`, which is not allowed here"));
        }
        if self.approve.contains(binding) || effects.iter().any(|effect| self.approve.contains(effect)) {
            return Decision::Ask;
        }
        Decision::Allow
    }
}

/// An owner of sessions: the name that a token stands for.
#[derive(Debug, Clone)]
pub struct Principal {
    /// In logs, and as the namespace of what it stores.
    pub name: String,
    /// What its sessions may do.
    pub policy: Policy,
    /// What it may do beyond its own sessions.
    pub roles: Roles,
    /// Its quotas and what it uses of them, on all its connections together.
    pub account: Arc<Account>,
    /// Whether its sessions may outlive the server; not those of a connection inside this process, which ends with it.
    pub(crate) keeps_sessions: bool,
}

impl Principal {
    /// A principal with an account of its own and no roles.
    pub fn new(name: impl Into<String>, policy: Policy, quotas: Quotas) -> Self {
        let account = Arc::new(Account::new(quotas, Instant::now()));
        Self { name: name.into(), policy, roles: Roles::default(), account, keeps_sessions: true }
    }

    /// The same principal, with the same account, in these roles.
    #[must_use]
    pub fn with_roles(mut self, roles: Roles) -> Self {
        self.roles = roles;
        self
    }

    /// The same principal on a connection inside this process.
    #[must_use]
    pub(crate) fn in_process(mut self) -> Self {
        self.keeps_sessions = false;
        self
    }

    /// The principal of every connection when no token is configured.
    pub fn anonymous() -> Self {
        Self::new("anonymous", Policy::default(), Quotas::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn effect_that_is_not_allowed_is_denied() {
        let policy = Policy { allow: Some(set(&["read"])), ..Policy::default() };
        assert_eq!(policy.decide("kv.get", &["read".into()]), Decision::Allow);
        assert!(matches!(policy.decide("kv.set", &["read".into(), "write".into()]), Decision::Deny(_)));
    }

    #[test]
    fn effect_under_approve_needs_no_allow() {
        let policy = Policy { allow: Some(set(&["read"])), approve: set(&["write"]), ..Policy::default() };
        assert_eq!(policy.decide("kv.set", &["write".into()]), Decision::Ask);
        assert!(matches!(policy.decide("http.request", &["external".into()]), Decision::Deny(_)));
    }

    #[test]
    fn denied_effect_wins_over_allowed() {
        let policy =
            Policy { allow: Some(set(&["read", "external"])), deny: set(&["external"]), ..Policy::default() };
        assert_eq!(policy.decide("kv.get", &["read".into()]), Decision::Allow);
        assert!(matches!(
            policy.decide("http.request", &["read".into(), "external".into()]),
            Decision::Deny(_)
        ));
    }

    #[test]
    fn denied_binding_wins_over_approval() {
        let policy = Policy {
            approve: set(&["external", "kv.delete"]),
            deny: set(&["http.request"]),
            ..Policy::default()
        };
        assert_eq!(policy.decide("mail.send", &["external".into()]), Decision::Ask);
        assert_eq!(policy.decide("kv.delete", &[]), Decision::Ask);
        assert!(matches!(policy.decide("http.request", &["external".into()]), Decision::Deny(_)));
    }
}
