//! Which principal's the agents at gateways elsewhere are.
//!
//! All scripts of the server share one connection to such a gateway, which cannot tell them apart. So the names that
//! they register there are told apart here, for as long as the server runs.

use std::collections::HashMap;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::codes::ErrorCode;
use crate::binding::BindingError;
use crate::rpc::Kind;

/// Names at gateways elsewhere whose principal is remembered; one more registration is refused as `Busy`.
/// Far more than a server has agents, few enough to be kept in memory.
pub(crate) const REMOTE_NAMES_MAX: usize = 10_000;

/// The principals by gateway and name.
#[derive(Debug, Default)]
pub(crate) struct RemoteNames {
    principals: Mutex<HashMap<(String, String), String>>,
    /// Names belong to all principals together.
    is_shared: bool,
}

impl RemoteNames {
    pub(crate) fn new(is_shared: bool) -> Self {
        Self { principals: Mutex::default(), is_shared }
    }

    /// Refuses a name that another principal has registered.
    pub(crate) fn check(&self, gateway: &str, name: &str, principal: &str) -> Result<(), BindingError> {
        if self.is_own(gateway, name, principal) {
            return Ok(());
        }
        let (code, kind) = ErrorCode::PermissionDenied.parts();
        let message = format!("{name} belongs to another principal");
        Err(BindingError::with_code(i64::from(code), message).data(json!({"kind": kind})))
    }

    /// Makes a name a principal's.
    pub(crate) fn claim(&self, gateway: &str, name: &str, principal: &str) -> Result<(), BindingError> {
        self.check(gateway, name, principal)?;
        let mut principals = self.principals.lock();
        let key = (gateway.to_owned(), name.to_owned());
        if principals.len() >= REMOTE_NAMES_MAX && !principals.contains_key(&key) {
            let message = format!("more than {REMOTE_NAMES_MAX} names of agents at gateways elsewhere");
            return Err(BindingError::of_kind(Kind::Busy, message));
        }
        principals.entry(key).or_insert_with(|| principal.to_owned());
        Ok(())
    }

    /// Leaves out of a listing what belongs to agents of other principals.
    pub(crate) fn retain_own(&self, gateway: &str, listing: &mut Value, principal: &str) {
        for part in ["sessions", "unreadable"] {
            if let Some(listed) = listing.get_mut(part).and_then(Value::as_array_mut) {
                listed.retain(|entry| {
                    entry["agent"].as_str().is_none_or(|name| self.is_own(gateway, name, principal))
                });
            }
        }
    }

    fn is_own(&self, gateway: &str, name: &str, principal: &str) -> bool {
        let principals = self.principals.lock();
        let owner = principals.get(&(gateway.to_owned(), name.to_owned()));
        self.is_shared || owner.is_none_or(|owner| owner == principal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_belongs_to_the_principal_that_registered_it() {
        let names = RemoteNames::new(false);
        names.check("far", "coder", "bob").unwrap();
        names.claim("far", "coder", "ada").unwrap();
        names.claim("far", "coder", "ada").unwrap();
        assert_eq!(names.claim("far", "coder", "bob").unwrap_err().kind(), Some("PERMISSION_DENIED"));
        names.claim("near", "coder", "bob").unwrap();
        let mut listing = json!({"sessions": [{"agent": "coder"}, {"agent": "dreamer"}]});
        names.retain_own("far", &mut listing, "bob");
        assert_eq!(listing, json!({"sessions": [{"agent": "dreamer"}]}));
    }

    #[test]
    fn names_that_are_shared_belong_to_all() {
        let names = RemoteNames::new(true);
        names.claim("far", "coder", "ada").unwrap();
        names.claim("far", "coder", "bob").unwrap();
    }

    #[test]
    fn last_name_is_taken_and_one_more_is_refused() {
        let names = RemoteNames::new(false);
        for number in 0..REMOTE_NAMES_MAX {
            names.claim("far", &number.to_string(), "ada").unwrap();
        }
        assert_eq!(names.claim("far", "late", "ada").unwrap_err().kind(), Some("Busy"));
        names.claim("far", "0", "ada").unwrap();
    }
}
