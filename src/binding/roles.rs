//! What a principal may do beyond its own sessions.
//!
//! Without a role a principal sees and acts on its own sessions only. Everything that lists or acts across sessions
//! asks for a role by name with [`Roles::require`], so that `grep require` finds every such place.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Sees the whole server: `/metrics` and the sessions of every principal.
    Operator,
    /// Decides over calls that wait for approval in sessions of other principals.
    Approver,
}

impl Role {
    /// Every role, in the order in which they are written.
    pub const ALL: [Self; 2] = [Self::Operator, Self::Approver];

    /// Its name in settings and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Approver => "approver",
        }
    }

    fn bit(self) -> u8 {
        match self {
            Self::Operator => 1,
            Self::Approver => 1 << 1,
        }
    }
}

/// A set of roles; empty by default. In settings it is a list of names, and an unknown name is an error.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Roles(u8);

/// A principal lacks the role that a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the role {:?} is required", .0.name())]
pub struct MissingRole(pub Role);

impl Roles {
    /// Every role.
    pub fn all() -> Self {
        Role::ALL.into_iter().collect()
    }

    /// Whether the role is in the set.
    pub fn contains(self, role: Role) -> bool {
        self.0 & role.bit() != 0
    }

    /// Fails unless the role is in the set.
    pub fn require(self, role: Role) -> Result<(), MissingRole> {
        if self.contains(role) { Ok(()) } else { Err(MissingRole(role)) }
    }

    /// The roles in the set.
    pub fn iter(self) -> impl Iterator<Item = Role> {
        Role::ALL.into_iter().filter(move |role| self.contains(*role))
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<Role> for Roles {
    fn from_iter<I: IntoIterator<Item = Role>>(roles: I) -> Self {
        Self(roles.into_iter().fold(0, |bits, role| bits | role.bit()))
    }
}

impl fmt::Debug for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl Serialize for Roles {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl schemars::JsonSchema for Roles {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Roles".into()
    }

    fn json_schema(_generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "array", "items": {"enum": Role::ALL.map(Role::name)}})
    }
}

impl<'de> Deserialize<'de> for Roles {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let names = Vec::<String>::deserialize(deserializer)?;
        let role = |name: &String| {
            let known = Role::ALL.into_iter().find(|role| role.name() == name);
            known.ok_or_else(|| {
                let expected = Role::ALL.map(Role::name).join("`, `");
                D::Error::custom(format!("unknown role {name:?}, expected one of `{expected}`"))
            })
        };
        names.iter().map(role).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    struct Holder {
        roles: Roles,
    }

    #[test]
    fn roles_read_and_write_as_names() {
        let both: Holder = toml::from_str("roles = ['approver', 'operator', 'operator']").unwrap();
        assert_eq!(both.roles, Roles::all());
        assert_eq!(toml::to_string(&both).unwrap(), "roles = [\"operator\", \"approver\"]\n");
        assert_eq!(toml::from_str::<Holder>("roles = []").unwrap(), Holder::default());
    }

    #[test]
    fn roles_unknown_name_is_refused() {
        for name in ["admin", "Operator", "operator ", ""] {
            let error = toml::from_str::<Holder>(&format!("roles = ['{name}']")).unwrap_err().to_string();
            assert!(error.contains(&format!("unknown role {name:?}")), "{error}");
            assert!(error.contains("`operator`, `approver`"), "{error}");
        }
    }

    #[test]
    fn require_names_the_missing_role() {
        let approver: Roles = [Role::Approver].into_iter().collect();
        assert_eq!(approver.require(Role::Approver), Ok(()));
        let missing = approver.require(Role::Operator).unwrap_err();
        assert_eq!(missing.to_string(), "the role \"operator\" is required");
        assert!(Roles::default().is_empty() && Roles::default().require(Role::Approver).is_err());
    }
}
