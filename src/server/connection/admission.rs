//! What a connection asks the rest of the server before it passes a request on: quotas, budgets, the latest bindings.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;

use crate::catalog::Catalog;
use crate::observe;
use crate::protocol::client_messages::FromClient;
use crate::quota::{Account, EvalSlot, QuotaExceeded};
use crate::rpc::ErrorObject;
use crate::session::boundary::Admission;

/// Ready when the server's bindings change, with what to wait on next.
pub(super) type CatalogChange = Pin<Box<dyn Future<Output = Option<watch::Receiver<Arc<Catalog>>>> + Send>>;

pub(super) fn watch_catalog(mut catalog_rx: watch::Receiver<Arc<Catalog>>) -> CatalogChange {
    Box::pin(async move { catalog_rx.changed().await.ok().map(|()| catalog_rx) })
}

/// What the quotas of a principal say to a request, and the place of an eval that waits, if these are counted.
pub(super) fn admit(
    account: &Arc<Account>,
    command: &FromClient,
    waits: bool,
) -> (Admission, Option<EvalSlot>) {
    match command {
        FromClient::Eval { .. } | FromClient::Invoke { .. } => {}
        FromClient::Answer { .. } | FromClient::Release { .. } => return Default::default(),
    }
    let cpu = account.check_cpu(Instant::now).err();
    let (queue, slot) = match waits.then(|| account.queue_eval()) {
        Some(Ok(slot)) => (None, Some(slot).filter(EvalSlot::is_counted)),
        Some(Err(exceeded)) => (Some(exceeded), None),
        None => (None, None),
    };
    (Admission { cpu, queue, has_slot: slot.is_some() }, slot)
}

pub(super) fn refusal(exceeded: QuotaExceeded) -> ErrorObject {
    observe::record_refusal(exceeded.resource.name());
    exceeded.into()
}
