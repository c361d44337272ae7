//! Who may read and write a space.
//!
//! A space belongs to the identity that it is named after, or else to the one that first wrote to
//! it. Other identities need an entry in the configuration. The spaces of a principal's scripts
//! have names that clients cannot use, so a request for such a space always comes from its
//! principal.

use std::collections::HashSet;

use super::names::encode_component;

/// Matches every identity in a list.
pub(super) const EVERYONE: &str = "*";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SpaceOwner {
    /// The scripts of one principal.
    Scripts,
    /// The identity that the space is named after.
    Identity(String),
    /// Nothing was written yet: the first writer will own it.
    Unclaimed,
    /// The identity of the first commit, escaped as in the store; `None` if the commit had none.
    Creator(Option<String>),
}

impl SpaceOwner {
    fn matches(&self, principal: Option<&str>) -> bool {
        match self {
            Self::Scripts => true,
            Self::Identity(name) => principal == Some(name.as_str()),
            Self::Unclaimed => false,
            Self::Creator(creator) => creator.is_some() && *creator == principal.map(encode_component),
        }
    }
}

/// The `access` lists of a space in the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Access {
    /// Identities that may read in addition to the writers, or [`EVERYONE`].
    pub(super) read: Option<HashSet<String>>,
    /// Identities that may write, or [`EVERYONE`].
    pub(super) write: Option<HashSet<String>>,
}

impl Access {
    /// Whether this identity may open a session. `None`, possible where `session.open` needs no
    /// signature, is excluded only by lists.
    pub(super) fn may_read(&self, owner: &SpaceOwner, principal: Option<&str>) -> bool {
        owner.matches(principal)
            || is_listed(self.read.as_ref(), principal)
            || is_listed(self.write.as_ref(), principal)
            || (self.read.is_none() && is_unrestricted(owner, principal))
    }

    pub(super) fn may_write(&self, owner: &SpaceOwner, principal: Option<&str>) -> bool {
        owner.matches(principal)
            || is_listed(self.write.as_ref(), principal)
            || (self.write.is_none() && is_unrestricted(owner, principal))
    }
}

fn is_listed(list: Option<&HashSet<String>>, principal: Option<&str>) -> bool {
    list.is_some_and(|list| {
        list.contains(EVERYONE) || principal.is_some_and(|principal| list.contains(principal))
    })
}

fn is_unrestricted(owner: &SpaceOwner, principal: Option<&str>) -> bool {
    principal.is_none() || *owner == SpaceOwner::Unclaimed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &[&str]) -> Option<HashSet<String>> {
        Some(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn space_without_lists_admits_only_its_owner() {
        let access = Access::default();
        let (ann, bob) = (Some("did:key:ann"), Some("did:key:bob"));
        let creator = SpaceOwner::Creator(ann.map(encode_component));
        for owner in [SpaceOwner::Identity("did:key:ann".to_owned()), creator] {
            assert!(access.may_read(&owner, ann) && access.may_write(&owner, ann));
            assert!(!access.may_read(&owner, bob) && !access.may_write(&owner, bob), "{owner:?}");
        }
        assert!(!access.may_read(&SpaceOwner::Creator(None), ann));
        assert!(access.may_write(&SpaceOwner::Unclaimed, bob));
        assert!(access.may_write(&SpaceOwner::Scripts, bob));
        assert!(access.may_write(&SpaceOwner::Creator(None), None));
    }

    #[test]
    fn lists_admit_others_and_never_exclude_the_owner() {
        let owner = SpaceOwner::Identity("did:key:ann".to_owned());
        let access = Access { read: None, write: list(&["did:key:bob"]) };
        assert!(access.may_write(&owner, Some("did:key:ann")));
        assert!(
            access.may_read(&owner, Some("did:key:bob")) && access.may_write(&owner, Some("did:key:bob"))
        );
        assert!(!access.may_read(&owner, Some("did:key:eve")));
        assert!(!access.may_write(&SpaceOwner::Unclaimed, Some("did:key:eve")));
        assert!(!access.may_write(&owner, None));
        let open = Access { read: list(&[EVERYONE]), write: None };
        assert!(open.may_read(&owner, Some("did:key:eve")) && open.may_read(&owner, None));
        assert!(!open.may_write(&owner, Some("did:key:eve")));
    }
}
