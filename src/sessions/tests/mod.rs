//! The directory over a host that runs no JavaScript, and over tables that are slow or fail.

mod ends;
mod host;
mod resumes;
mod tables;

use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use self::host::TestHost;
use super::events::{ConnectionEvent, EventReceiver};
use super::table::SessionTable;
use super::{Directory, OpenSession, SessionLease, SessionSettings};
use crate::binding::{Policy, Principal};
use crate::limits::Limits;
use crate::observe::audit::Audit;
use crate::protocol::client_messages::{Closing, FromClient, ToClient};
use crate::protocol::methods::{EvalParams, HandshakeParams};
use crate::quota::Quotas;
use crate::rpc::{ErrorObject, Id};
use crate::session::boundary::{Admission, ToSession};

/// The shard that sessions of a [`TestHost`] seem to run on.
const SHARD: usize = 5;

fn directory(settings: SessionSettings) -> Directory {
    let limits = Arc::new(Limits::default());
    let mut directory =
        Directory::new(Arc::default(), Arc::clone(&limits), settings, "test", Audit::default(), None);
    directory.host = Box::new(TestHost { handlers: Arc::default(), limits, shard: SHARD });
    directory
}

fn directory_on(table: impl SessionTable + 'static) -> Directory {
    let mut directory = directory(SessionSettings::default());
    directory.table = Arc::new(table);
    directory
}

fn principal(name: &str) -> Arc<Principal> {
    Arc::new(Principal::new(name, Policy::default(), Quotas::default()))
}

/// A connection with the session that it holds.
struct Client {
    lease: SessionLease,
    events: EventReceiver,
    /// `result` of its handshake.
    result: Value,
}

impl Client {
    async fn open(directory: &Directory, principal: &Arc<Principal>) -> Self {
        Self::connect(directory, principal, None).await.unwrap()
    }

    /// With `session` of the handshake, for a resume.
    async fn connect(
        directory: &Directory,
        principal: &Arc<Principal>,
        session: Option<Value>,
    ) -> Result<Self, ErrorObject> {
        let mut params = json!({"protocol": "0.1"});
        if let Some(session) = session {
            params["session"] = session;
        }
        let params: HandshakeParams = serde_json::from_value(params).unwrap();
        let OpenSession { lease, events, handshake_result, .. } = directory.open(principal, params).await?;
        let result = serde_json::from_str(RawValue::get(&handshake_result)).unwrap();
        Ok(Self { lease, events, result })
    }

    /// What a resume of its session shows.
    fn ticket(&self) -> Value {
        json!({"id": self.result["sessionId"], "token": self.result["metadata"]["session"]["token"]})
    }

    fn id(&self) -> &str {
        self.result["sessionId"].as_str().unwrap()
    }

    /// Sends code, as a connection does.
    async fn send(&self, directory: &Directory, code: &str) {
        directory.confirm(&self.lease, true);
        let params = EvalParams { code: code.to_owned(), ..EvalParams::default() };
        let command = FromClient::Eval { request: Id::Number(1), params };
        let message = ToSession::Client {
            connection: self.lease.connection,
            command,
            charge: 0,
            admission: Admission::default(),
        };
        self.lease.link.send(message).await.unwrap();
    }

    /// The answer to code: a [`TestHost`] returns it as it is.
    async fn eval(&mut self, directory: &Directory, code: &str) -> String {
        self.send(directory, code).await;
        match self.events.recv().await {
            Some(ConnectionEvent::Session(ToClient::Answered { outcome: Ok(result), .. })) => {
                serde_json::from_str(result.get()).unwrap()
            }
            other => panic!("{other:?}"),
        }
    }

    /// Why the session closes the connection; `None` if it is lost.
    async fn closing(&mut self) -> Option<Closing> {
        match self.events.recv().await? {
            ConnectionEvent::Session(ToClient::Close(closing)) => Some(closing),
            other => panic!("{other:?}"),
        }
    }
}

/// Opens a session, sends code to it and releases it. Returns what resumes it.
async fn leave_session(directory: &Directory, principal: &Arc<Principal>) -> Value {
    let mut client = Client::open(directory, principal).await;
    client.eval(directory, "1").await;
    directory.release(&client.lease).await;
    client.ticket()
}

/// The kind of the error that a handshake is answered with.
fn kind(refused: Result<Client, ErrorObject>) -> String {
    let error = refused.err().expect("the handshake is refused");
    error.data.unwrap()["kind"].as_str().unwrap().to_owned()
}

/// The ids of all records.
async fn recorded(directory: &Directory) -> Vec<String> {
    let records = directory.table.list(None, usize::MAX).await.unwrap();
    records.iter().map(|record| record.id.to_string()).collect()
}
