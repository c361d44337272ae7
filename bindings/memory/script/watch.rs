//! Watches of scripts: a task per watch calls the script with the changes.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::super::client::{Request, SpaceIdentity, SyncBuffer};
use super::super::codec::Data;
use super::{ScriptBindings, SpaceInput, expect_function, to_binding_error};
use crate::binding::{BindingError, Call, FunctionRef, NativeFunction, handler};

#[derive(Deserialize)]
pub(super) struct WatchInput {
    #[serde(flatten)]
    target: SpaceInput,
    watches: Value,
    #[serde(rename = "onSync")]
    on_sync: Value,
}

impl ScriptBindings {
    pub(super) async fn watch(self, input: WatchInput, call: Call) -> Result<Value, BindingError> {
        let on_sync = expect_function(&call, &input.on_sync, "onSync")?;
        let target = self.resolve_space(&input.target, &call)?;
        let syncs = Arc::new(SyncBuffer::default());
        let watch = Watch::start(self.clone(), target.clone(), input.target.peer.clone());
        let (watch_number, watches) = (watch.number, Data::from_plain(input.watches));
        let to_script = Arc::clone(&syncs);
        let request = |reply_tx| Request::Watch { target, watch_number, watches, syncs: to_script, reply_tx };
        let sync =
            self.peers.request(input.target.peer.as_deref(), request).await.map_err(to_binding_error)?;
        let (stop, ended) = (CancellationToken::new(), CancellationToken::new());
        tokio::spawn(deliver_syncs(syncs, on_sync, watch, stop.clone(), ended.clone()));
        let unwatch = call.export("unwatch", stop_function(stop, ended));
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

/// A function that ends a watch when it is called, or when the script has released it.
fn stop_function(stop: CancellationToken, ended: CancellationToken) -> NativeFunction {
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

/// Calls the script with each sync until it ends the watch or its session ends.
async fn deliver_syncs(
    syncs: Arc<SyncBuffer>,
    on_sync: FunctionRef,
    watch: Watch,
    stop: CancellationToken,
    ended: CancellationToken,
) {
    let deliver = async {
        loop {
            let sync = syncs.take().await;
            // A failed call does not end the watch.
            if let Err(error) = on_sync.call(vec![sync.to_plain()], 0).await {
                tracing::debug!(?error, "onSync failed");
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

/// A running watch. The server is notified however it ends.
struct Watch {
    bindings: ScriptBindings,
    target: SpaceIdentity,
    peer: Option<String>,
    number: u64,
    is_ended: bool,
}

impl Watch {
    fn start(bindings: ScriptBindings, target: SpaceIdentity, peer: Option<String>) -> Self {
        let number = bindings.take_number();
        Self { bindings, target, peer, number, is_ended: false }
    }

    async fn end(mut self) {
        self.is_ended = true;
        self.send_unwatch().await;
    }

    fn send_unwatch(&self) -> impl Future<Output = ()> + Send + use<> {
        let (bindings, peer, number) = (self.bindings.clone(), self.peer.clone(), self.number);
        let request = Request::Unwatch { target: self.target.clone(), watch_number: number };
        async move {
            // A server that cannot be reached has no session to clean up.
            let _ = bindings.peers.send(peer.as_deref(), request).await;
            bindings.watches.lock().remove(&number);
        }
    }
}

impl Drop for Watch {
    /// Runs when the call is cancelled before the server answered.
    fn drop(&mut self) {
        if let (false, Ok(runtime)) = (self.is_ended, tokio::runtime::Handle::try_current()) {
            runtime.spawn(self.send_unwatch());
        }
    }
}
