//! The bindings that a handshake lists: the server's, then the control bindings. Written once per version of the catalog,
//! since servers with hundreds of bindings are common.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::value::RawValue;

use super::open::unavailable;
use super::{Directory, to_json};
use crate::binding::{Handlers, Principal};
use crate::catalog::Catalog;
use crate::protocol::declaration::Declaration;
use crate::protocol::methods::HandshakeParams;
use crate::protocol::names::NameSet;
use crate::rpc::ErrorObject;
use crate::session::control_declarations;

/// One version of the list.
pub(super) struct Listing {
    pub(super) catalog: Arc<Catalog>,
    /// `bindings` in the result of a handshake.
    pub(super) declarations: Box<RawValue>,
    /// The names in there, which a new client cannot take.
    pub(super) names: NameSet,
}

impl Listing {
    fn new(catalog: Arc<Catalog>) -> Self {
        let controls = control_declarations();
        let server = catalog.iter().map(|entry| &entry.declaration);
        let declarations = to_json(&server.chain(&controls).collect::<Vec<_>>());
        let names = with_controls(catalog.names().clone(), &controls);
        Self { catalog, declarations, names }
    }

    /// The names that a client of a session cannot take if only bindings with lower numbers were there when the session
    /// began. A binding that was added later is hidden by a client's binding of that name.
    pub(super) fn names_below(&self, number: u32) -> Option<NameSet> {
        let has_later = self.catalog.next_number() > number;
        has_later.then(|| with_controls(self.catalog.names_below(number), &control_declarations()))
    }
}

fn with_controls(mut names: NameSet, controls: &[Declaration]) -> NameSet {
    for control in controls {
        // No binding of the server can have it: these names are reserved.
        let _ = names.insert(&control.name);
    }
    names
}

/// The latest version of the list.
pub(super) struct Listings(Mutex<Arc<Listing>>);

impl Listings {
    pub(super) fn new(handlers: &Handlers) -> Self {
        Self(Mutex::new(Arc::new(Listing::new(handlers.catalog()))))
    }

    /// The list of the bindings that are offered now.
    pub(super) fn latest(&self, handlers: &Handlers) -> Arc<Listing> {
        let catalog = handlers.catalog();
        let mut latest = self.0.lock();
        if latest.catalog.version() < catalog.version() {
            *latest = Arc::new(Listing::new(catalog));
        }
        Arc::clone(&latest)
    }
}

impl Directory {
    /// The names that the client of a resumed session cannot take, where they are fewer than those that are listed.
    pub(super) async fn names_taken(
        &self,
        principal: &Principal,
        params: &HandshakeParams,
        listing: &Listing,
    ) -> Result<Option<NameSet>, ErrorObject> {
        let Some(resume) = &params.session else { return Ok(None) };
        let record = self.table.find(&resume.id).await.map_err(|error| unavailable(&error))?;
        let own = record.filter(|record| *record.principal == principal.name);
        Ok(own.and_then(|record| listing.names_below(record.first_number)))
    }
}
