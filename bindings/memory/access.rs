//! Who may read and write a space.
//!
//! A space belongs to the identity that it is named after, or else to the one that first wrote to it. Others get in
//! only where the configuration lists them. The spaces of a principal's scripts have names that no client can say, so
//! whoever asks for one is its principal.

use std::collections::HashSet;

use super::names::encode_component;

/// What stands in a list for every identity.
pub(super) const EVERYONE: &str = "*";

/// Whose a space is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SpaceOwner {
    /// The scripts of one principal.
    Scripts,
    /// The identity that it is named after.
    Identity(String),
    /// Nothing was written yet: whoever writes first will own it.
    Unclaimed,
    /// The identity of its first commit, escaped as in the store; `None` if that had no identity.
    Creator(Option<String>),
}

impl SpaceOwner {
    fn is(&self, principal: Option<&str>) -> bool {
        match self {
            Self::Scripts => true,
            Self::Identity(name) => principal == Some(name.as_str()),
            Self::Unclaimed => false,
            Self::Creator(creator) => creator.is_some() && *creator == principal.map(encode_component),
        }
    }
}

/// What the configuration says of a space.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Access {
    /// Identities that may read beside those that may write, or [`EVERYONE`].
    pub(super) read: Option<HashSet<String>>,
    /// Identities that may write, or [`EVERYONE`].
    pub(super) write: Option<HashSet<String>>,
}

impl Access {
    /// Whether a session of this identity may be open. Without an identity (where openings need no signature) only
    /// lists can exclude it.
    pub(super) fn may_read(&self, owner: &SpaceOwner, principal: Option<&str>) -> bool {
        owner.is(principal)
            || is_listed(self.read.as_ref(), principal)
            || is_listed(self.write.as_ref(), principal)
            || (self.read.is_none() && is_free(owner, principal))
    }

    /// Whether this identity may commit.
    pub(super) fn may_write(&self, owner: &SpaceOwner, principal: Option<&str>) -> bool {
        owner.is(principal)
            || is_listed(self.write.as_ref(), principal)
            || (self.write.is_none() && is_free(owner, principal))
    }
}

fn is_listed(list: Option<&HashSet<String>>, principal: Option<&str>) -> bool {
    list.is_some_and(|list| {
        list.contains(EVERYONE) || principal.is_some_and(|principal| list.contains(principal))
    })
}

fn is_free(owner: &SpaceOwner, principal: Option<&str>) -> bool {
    principal.is_none() || *owner == SpaceOwner::Unclaimed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &[&str]) -> Option<HashSet<String>> {
        Some(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn space_without_lists_is_its_owners() {
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
    fn lists_let_others_in_and_never_lock_the_owner_out() {
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
