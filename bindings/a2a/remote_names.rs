//! The principals that own agent names at remote gateways.
//!
//! All scripts share one link to a remote gateway, which therefore cannot tell their principals
//! apart. So this server records who registered which name, until it stops.

use std::collections::HashMap;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::codes::ErrorCode;
use crate::binding::BindingError;
use crate::rpc::Kind;

/// Names whose principal is recorded; one more registration is refused as `Busy`.
/// Far more than a server has agents, few enough to keep in memory.
pub(crate) const REMOTE_NAMES_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct RemoteNames {
    /// By gateway and name.
    principals: Mutex<HashMap<(String, String), String>>,
    /// Whether all principals share the names.
    is_shared: bool,
}

impl RemoteNames {
    pub(crate) fn new(is_shared: bool) -> Self {
        Self { principals: Mutex::default(), is_shared }
    }

    /// Refuses a name that another principal has registered.
    pub(crate) fn check_owner(&self, gateway: &str, name: &str, principal: &str) -> Result<(), BindingError> {
        if self.is_own(gateway, name, principal) {
            return Ok(());
        }
        let (code, kind) = ErrorCode::PermissionDenied.parts();
        let message = format!("{name} belongs to another principal");
        Err(BindingError::with_code(i64::from(code), message).data(json!({"kind": kind})))
    }

    /// Records a principal as the owner of a name.
    pub(crate) fn claim(&self, gateway: &str, name: &str, principal: &str) -> Result<(), BindingError> {
        self.check_owner(gateway, name, principal)?;
        let mut principals = self.principals.lock();
        let key = (gateway.to_owned(), name.to_owned());
        if principals.len() >= REMOTE_NAMES_MAX && !principals.contains_key(&key) {
            let message = format!("more than {REMOTE_NAMES_MAX} agent names at remote gateways");
            return Err(BindingError::of_kind(Kind::Busy, message));
        }
        principals.entry(key).or_insert_with(|| principal.to_owned());
        Ok(())
    }

    /// Removes the entries of other principals' agents from a listing.
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
        names.check_owner("far", "coder", "bob").unwrap();
        names.claim("far", "coder", "ada").unwrap();
        names.claim("far", "coder", "ada").unwrap();
        assert_eq!(names.claim("far", "coder", "bob").unwrap_err().kind(), Some("PERMISSION_DENIED"));
        names.claim("near", "coder", "bob").unwrap();
        let mut listing = json!({"sessions": [{"agent": "coder"}, {"agent": "dreamer"}]});
        names.retain_own("far", &mut listing, "bob");
        assert_eq!(listing, json!({"sessions": [{"agent": "dreamer"}]}));
    }

    #[test]
    fn shared_names_belong_to_all_principals() {
        let names = RemoteNames::new(true);
        names.claim("far", "coder", "ada").unwrap();
        names.claim("far", "coder", "bob").unwrap();
    }

    #[test]
    fn name_past_the_limit_is_refused() {
        let names = RemoteNames::new(false);
        for number in 0..REMOTE_NAMES_MAX {
            names.claim("far", &number.to_string(), "ada").unwrap();
        }
        assert_eq!(names.claim("far", "late", "ada").unwrap_err().kind(), Some("Busy"));
        names.claim("far", "0", "ada").unwrap();
    }
}
