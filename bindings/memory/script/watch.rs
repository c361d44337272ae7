//! Watches of scripts: a task for each that calls the script with what changes.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::super::client::{Ask, Mailbox, Mounted};
use super::super::codec::Data;
use super::{Place, Scripts, function, told};
use crate::binding::{BindingError, Call, FunctionRef, NativeFunction, handler};

#[derive(Deserialize)]
pub(super) struct WatchInput {
    #[serde(flatten)]
    place: Place,
    watches: Value,
    #[serde(rename = "onSync")]
    on_sync: Value,
}

impl Scripts {
    pub(super) async fn watch(self, input: WatchInput, call: Call) -> Result<Value, BindingError> {
        let on_sync = function(&call, &input.on_sync, "onSync")?;
        let at = self.mounted(&input.place, &call)?;
        let mailbox = Arc::new(Mailbox::default());
        let watch = Watch::begin(self.clone(), at.clone(), input.place.peer.clone());
        let (number, watches) = (watch.number, Data::from_plain(input.watches));
        let to = Arc::clone(&mailbox);
        let ask = |reply_tx| Ask::Watch { at, number, watches, mailbox: to, reply_tx };
        let sync = self.peers.ask(input.place.peer.as_deref(), ask).await.map_err(told)?;
        let (stop, ended) = (CancellationToken::new(), CancellationToken::new());
        tokio::spawn(deliver(mailbox, on_sync, watch, stop.clone(), ended.clone()));
        let unwatch = call.export("unwatch", ending(stop, ended));
        Ok(json!({"sync": sync.to_plain(), "unwatch": unwatch}))
    }

    fn take_number(&self) -> u64 {
        let mut used = self.watches.lock();
        let number = (1..).zip(used.iter()).find(|(free, taken)| free != *taken).map(|(free, _)| free);
        let number = number.unwrap_or(used.len() as u64 + 1);
        used.insert(number);
        number
    }
}

/// A function that ends a watch when it is called, and when nobody holds it any more.
fn ending(stop: CancellationToken, ended: CancellationToken) -> NativeFunction {
    let (stopping, guard) = (stop.clone(), stop.drop_guard());
    handler(move |_, _| {
        let _held = &guard;
        stopping.cancel();
        let ended = ended.clone();
        async move {
            ended.cancelled().await;
            Ok(Value::Null)
        }
    })
}

/// Calls the script with what changes, until it wants no more or its session is over.
async fn deliver(
    mailbox: Arc<Mailbox>,
    on_sync: FunctionRef,
    watch: Watch,
    stop: CancellationToken,
    ended: CancellationToken,
) {
    let deliver = async {
        loop {
            let sync = mailbox.take().await;
            // A script that fails on one message is told the next one all the same.
            if let Err(error) = on_sync.call(vec![sync.to_plain()], 0).await {
                tracing::debug!(?error, "a script failed at what it watches");
            }
        }
    };
    tokio::select! {
        () = deliver => {}
        () = stop.cancelled() => {}
        () = on_sync.gone() => {}
    }
    watch.end().await;
    ended.cancel();
}

/// A watch that goes on. However it is left, the server is told.
struct Watch {
    scripts: Scripts,
    at: Mounted,
    peer: Option<String>,
    number: u64,
    is_ended: bool,
}

impl Watch {
    fn begin(scripts: Scripts, at: Mounted, peer: Option<String>) -> Self {
        let number = scripts.take_number();
        Self { scripts, at, peer, number, is_ended: false }
    }

    async fn end(mut self) {
        self.is_ended = true;
        self.farewell().await;
    }

    fn farewell(&self) -> impl Future<Output = ()> + Send + use<> {
        let (scripts, peer, number) = (self.scripts.clone(), self.peer.clone(), self.number);
        let ask = Ask::Unwatch { at: self.at.clone(), number };
        async move {
            // A server that is not there is not told, and has nothing to forget.
            let _ = scripts.peers.tell(peer.as_deref(), ask).await;
            scripts.watches.lock().remove(&number);
        }
    }
}

impl Drop for Watch {
    /// The call was given up while the server was asked.
    fn drop(&mut self) {
        if let (false, Ok(runtime)) = (self.is_ended, tokio::runtime::Handle::try_current()) {
            runtime.spawn(self.farewell());
        }
    }
}
