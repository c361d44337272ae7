//! The names in policies, compared with the bindings that were loaded.
//!
//! A misspelled name in `deny` or `approve` protects from nothing, so it is an error unless the policy says otherwise. A
//! misspelled effect in `allow` only forbids more than was meant, which shows at the first call: a warning.

use std::collections::BTreeSet;
use std::fmt;

use super::Policy;
use super::policy::UnknownNames;
use crate::catalog::Catalog;
use crate::catalog::search::closest;

/// Effects that are known whatever is loaded: a policy may name them before there is a binding that has them.
pub(crate) const STANDARD_EFFECTS: [&str; 3] = ["read", "write", "external"];

/// A name in a policy that is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownName {
    /// Its place, such as `tokens.toml: tokens[0].policy.deny`.
    pub place: String,
    /// The name.
    pub name: String,
    /// What was probably meant.
    pub meant: Option<String>,
    /// Whether the server must not start with it.
    pub is_error: bool,
    /// Whether the list takes effects only.
    takes_effects_only: bool,
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let expected = match self.takes_effects_only {
            true => "an effect of a loaded binding",
            false => "a loaded binding or an effect of one",
        };
        write!(f, "{}: unknown name {:?}, expected {expected}", self.place, self.name)?;
        match &self.meant {
            Some(meant) => write!(f, "; did you mean {meant:?}?"),
            None => Ok(()),
        }
    }
}

/// The names that policies can mean on a server.
#[derive(Debug)]
pub(crate) struct PolicyNames<'a> {
    bindings: BTreeSet<&'a str>,
    effects: BTreeSet<&'a str>,
}

impl<'a> PolicyNames<'a> {
    /// Those of these bindings, and the standard effects.
    pub(crate) fn of(catalog: &'a Catalog) -> Self {
        let declarations = || catalog.iter().map(|entry| &entry.declaration);
        let declared = declarations().flat_map(|declaration| declaration.effects.iter().map(String::as_str));
        Self {
            bindings: declarations().map(|declaration| declaration.name.as_str()).collect(),
            effects: declared.chain(STANDARD_EFFECTS).collect(),
        }
    }

    /// The names in a policy that are not known. `place` is the place of the policy, up to the name of a list in it.
    pub(crate) fn check(&self, place: &str, policy: &Policy) -> Vec<UnknownName> {
        let is_error = policy.unknown == UnknownNames::Refuse;
        let mut unknown = Vec::new();
        for name in policy.allow.iter().flatten().filter(|name| !self.effects.contains(name.as_str())) {
            unknown.push(self.unknown(place, "allow", name, false));
        }
        for (list, names) in [("approve", &policy.approve), ("deny", &policy.deny)] {
            let is_known = |name: &str| self.effects.contains(name) || self.bindings.contains(name);
            for name in names.iter().filter(|name| !is_known(name)) {
                unknown.push(self.unknown(place, list, name, is_error));
            }
        }
        unknown
    }

    fn unknown(&self, place: &str, list: &str, name: &str, is_error: bool) -> UnknownName {
        let takes_effects_only = list == "allow";
        let bindings = self.bindings.iter().filter(|_| !takes_effects_only);
        let names = self.effects.iter().chain(bindings).copied();
        UnknownName {
            place: format!("{place}{list}"),
            name: name.to_owned(),
            meant: closest(names, name, 1).pop(),
            is_error,
            takes_effects_only,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{CatalogBuilder, CompiledSchemas};
    use crate::protocol::declaration::Declaration;
    use crate::schema::SchemaSource;

    fn catalog() -> Catalog {
        let declaration =
            Declaration { effects: vec!["billing".to_owned()], ..Declaration::named("orders.refund") };
        let schemas = CompiledSchemas::compile(&declaration, SchemaSource::Operator).unwrap();
        let mut builder = CatalogBuilder::default();
        builder.push(schemas.into_entry(declaration, None));
        builder.build()
    }

    fn check(policy: &str) -> Vec<(String, bool)> {
        let (catalog, policy) = (catalog(), toml::from_str(policy).unwrap());
        let unknown = PolicyNames::of(&catalog).check("t.", &policy);
        unknown.iter().map(|unknown| (unknown.to_string(), unknown.is_error)).collect()
    }

    #[test]
    fn known_bindings_and_effects_pass() {
        let policy = "allow = ['read', 'billing']\napprove = ['write', 'orders.refund']\ndeny = ['external', 'billing']";
        assert_eq!(check(policy), []);
    }

    #[test]
    fn misspelled_deny_and_approve_are_errors() {
        let expected = "expected a loaded binding or an effect of one; did you mean";
        assert_eq!(
            check("deny = ['orders.refnud', 'extrenal']\napprove = ['biling']"),
            [
                (format!("t.approve: unknown name \"biling\", {expected} \"billing\"?"), true),
                (format!("t.deny: unknown name \"extrenal\", {expected} \"external\"?"), true),
                (format!("t.deny: unknown name \"orders.refnud\", {expected} \"orders.refund\"?"), true),
            ]
        );
    }

    #[test]
    fn misspelled_allow_is_a_warning() {
        // A binding is not an effect: `allow` would allow nothing by it.
        for name in ["raed", "orders.refund"] {
            let unknown = check(&format!("allow = ['{name}']"));
            assert!(!unknown[0].1 && unknown[0].0.contains("expected an effect"), "{unknown:?}");
        }
    }

    #[test]
    fn policy_that_tolerates_unknown_names_has_no_errors() {
        let unknown = check("deny = ['mail.send']\nunknown = 'warn'");
        assert_eq!((unknown.len(), unknown[0].1), (1, false));
    }
}
