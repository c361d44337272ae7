//! Forks: a place for one in the quotas, and its registration when it runs.
//!
//! A fork is a session like any other. It begins without a connection, so it is kept as long as a detached session is, and
//! counts as one.

use std::sync::Arc;
use std::time::SystemTime;

use serde_json::{Value, json};
use uuid::Uuid;

use super::host::HostedSession;
use super::live::{LifeRecord, LiveSession};
use super::open::unavailable;
use super::table::SessionRecord;
use super::token::{TokenHash, TokenHashes, random_token};
use super::{Directory, busy};
use crate::binding::SessionScope;
use crate::observe;
use crate::observe::audit::Event;
use crate::protocol::client_messages::Closing;
use crate::quota::SessionSlot;
use crate::rpc::ErrorObject;
use crate::session::boundary::ToSession;

/// A place for a fork, and what it will be.
pub(super) struct ForkPlace {
    /// Of the fork: its id, and the principal of its origin.
    pub(super) scope: Arc<SessionScope>,
    origin: Arc<SessionScope>,
    slot: SessionSlot,
}

impl Directory {
    /// Takes a place for a fork of that session in the quotas.
    pub(super) fn admit_fork(&self, origin: &Arc<SessionScope>) -> Result<ForkPlace, ErrorObject> {
        let slot = self.admit(&origin.principal)?;
        let scope = SessionScope {
            id: format!("sess_{}", Uuid::new_v4().simple()),
            principal: Arc::clone(&origin.principal),
            audit: self.audit.clone(),
        };
        Ok(ForkPlace { scope: Arc::new(scope), origin: Arc::clone(origin), slot })
    }

    /// Registers a fork that runs. Returns what a client needs to resume it.
    pub(super) async fn register_fork(
        &self,
        place: ForkPlace,
        hosted: HostedSession,
        last_connection: u64,
    ) -> Result<Value, ErrorObject> {
        let ForkPlace { scope, origin, slot } = place;
        let HostedSession { link, shard } = hosted;
        let token = random_token();
        let found = self.table.find(&origin.id).await.map_err(|error| unavailable(&error));
        let first_number = found.map(|found| found.map(|record| record.first_number).unwrap_or_default());
        let registered = match first_number {
            Ok(first_number) => {
                let record = SessionRecord {
                    id: Arc::from(&*scope.id),
                    principal: Arc::from(&*scope.principal.name),
                    tokens: TokenHashes::new(TokenHash::new(&token)),
                    owner: Arc::clone(&self.owner),
                    connection: last_connection,
                    expires_at: Some(self.expiry(SystemTime::now())),
                    first_number,
                    ran_eval: true,
                };
                let life = LifeRecord::new(Arc::clone(&scope));
                let live = LiveSession { link: Arc::clone(&link), shard, slot, _life: life };
                self.add(record, live).await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = registered {
            // Without a record it would never end.
            let _ = link.send(ToSession::End(Closing::GoingAway)).await;
            return Err(error);
        }
        self.audit.record(|| Event::SessionForked {
            principal: scope.principal.name.clone(),
            session: origin.id.clone(),
            fork: scope.id.clone(),
        });
        if let Some(evicted) = self.evict(&scope.principal.name, self.detached_share).await {
            let is_fork = Arc::ptr_eq(&evicted.link, &link);
            let _ = evicted.link.send(ToSession::End(Closing::GoingAway)).await;
            if is_fork {
                observe::record_refusal("detached-sessions");
                return Err(busy("the server keeps no further session without a connection"));
            }
        }
        Ok(json!({"sessionId": scope.id, "token": token}))
    }
}
