//! Who may come in.

use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode};

use crate::binding::Principal;

/// A refusal before the upgrade.
pub(crate) type Refusal = (StatusCode, &'static str);

/// Decides over a request by its headers.
#[derive(Debug)]
pub struct Gate {
    anonymous: Arc<Principal>,
}

impl Gate {
    /// Everybody may come in, as one and the same principal.
    pub fn open() -> Self {
        Self { anonymous: Arc::new(Principal::anonymous()) }
    }

    /// The principal behind a request, or why it is refused.
    pub(crate) fn admit(&self, _headers: &HeaderMap) -> Result<Arc<Principal>, Refusal> {
        Ok(Arc::clone(&self.anonymous))
    }

    /// The principal of a transport without headers.
    pub(crate) fn local(&self) -> Arc<Principal> {
        Arc::clone(&self.anonymous)
    }
}
