//! Functions as values: those we gave to the server, those we received from it.
//!
//! Both sides count sendings, so both tables walk the values that pass. What we gave is owned by the driver. What we
//! received is shared with its handles, because a handle is given up in `drop`, which can neither wait nor fail.

use std::collections::HashMap;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;

use super::handler::Handler;
use crate::protocol::methods::ReleaseParams;

/// Live references, each way: the protocol's own limit.
pub(super) const REFERENCES_MAX: usize = 10_000;

/// Calls `found` with the id of every function in `value`.
fn each_function<'a>(value: &'a Value, mut found: impl FnMut(&'a str)) {
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(fields) => {
                if let Some(Value::String(id)) = fields.get("$fn") {
                    found(id);
                } else if let (1, Some(Value::Object(plain))) = (fields.len(), fields.get("$object")) {
                    // Escaped: a `$fn` directly in it is an ordinary key.
                    open.extend(plain.values());
                } else {
                    open.extend(fields.values());
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

/// The functions that we gave to the server on this connection.
#[derive(Default)]
pub(super) struct Exports {
    ids_used: u64,
    functions: HashMap<String, Export>,
}

struct Export {
    handler: Handler,
    sent: u64,
}

impl Exports {
    /// Takes a function in and names it; `None` if there are too many.
    pub(super) fn add(&mut self, handler: Handler) -> Option<String> {
        if self.functions.len() >= REFERENCES_MAX {
            return None;
        }
        self.ids_used += 1;
        let id = format!("c{}", self.ids_used);
        self.functions.insert(id.clone(), Export { handler, sent: 0 });
        Some(id)
    }

    pub(super) fn get(&self, id: &str) -> Option<&Handler> {
        self.functions.get(id).map(|export| &export.handler)
    }

    /// A value goes out: each function in it is sent once more.
    pub(super) fn note_sent(&mut self, value: &Value) {
        if self.functions.is_empty() {
            return;
        }
        each_function(value, |id| {
            if let Some(export) = self.functions.get_mut(id) {
                export.sent += 1;
            }
        });
    }

    /// The server gives up `count` sendings.
    pub(super) fn release(&mut self, ReleaseParams { reference, count }: &ReleaseParams) {
        if let Some(export) = self.functions.get_mut(reference) {
            export.sent = export.sent.saturating_sub(*count);
            if export.sent == 0 {
                self.functions.remove(reference);
            }
        }
    }
}

/// The functions that we received from the server on this connection.
#[derive(Default)]
pub(super) struct Imports {
    table: Mutex<ImportTable>,
    given_up: Notify,
}

#[derive(Default)]
struct ImportTable {
    received: HashMap<String, Import>,
    given_up: Vec<ReleaseParams>,
}

#[derive(Default)]
struct Import {
    received: u64,
    handles: usize,
}

impl Imports {
    /// A value came in: each function in it was received once more.
    pub(super) fn note_received(&self, value: &Value) {
        let mut ids = Vec::new();
        each_function(value, |id| ids.push(id));
        if ids.is_empty() {
            return;
        }
        let mut table = self.table.lock();
        for id in ids {
            if table.received.contains_key(id) || table.received.len() < REFERENCES_MAX {
                table.received.entry(id.to_owned()).or_default().received += 1;
            }
        }
    }

    /// One more handle; `false` if no such function is here.
    pub(super) fn hold(&self, id: &str) -> bool {
        match self.table.lock().received.get_mut(id) {
            Some(import) => {
                import.handles += 1;
                true
            }
            None => false,
        }
    }

    /// One handle less. With the last one, everything received of that function is given up.
    pub(super) fn let_go(&self, id: &str) {
        let mut table = self.table.lock();
        let Some(import) = table.received.get_mut(id) else {
            return;
        };
        import.handles = import.handles.saturating_sub(1);
        if import.handles == 0 {
            let count = import.received;
            table.received.remove(id);
            table.given_up.push(ReleaseParams { reference: id.to_owned(), count });
            self.given_up.notify_one();
        }
    }

    /// Waits until something was given up.
    pub(super) async fn given_up(&self) {
        self.given_up.notified().await;
    }

    /// What was given up and not yet said.
    pub(super) fn take_given_up(&self) -> Vec<ReleaseParams> {
        std::mem::take(&mut self.table.lock().given_up)
    }
}

#[cfg(test)]
mod tests {
    use super::super::handler::of_function;
    use super::*;
    use serde_json::json;

    fn handler() -> Handler {
        of_function(|_, _| async { Ok(Value::Null) })
    }

    fn release(reference: &str, count: u64) -> ReleaseParams {
        ReleaseParams { reference: reference.into(), count }
    }

    #[test]
    fn an_export_lives_until_every_sending_is_released() {
        let mut exports = Exports::default();
        let id = exports.add(handler()).unwrap();
        exports.note_sent(&json!([{"$fn": id}, {"deep": [{"$fn": id, "name": "x"}]}]));
        exports.release(&release(&id, 1));
        assert!(exports.get(&id).is_some());
        exports.release(&release("c99", 1));
        exports.release(&release(&id, 5));
        assert!(exports.get(&id).is_none());
        assert_ne!(exports.add(handler()).unwrap(), id);
    }

    #[test]
    fn one_export_past_the_limit_is_refused() {
        let mut exports = Exports::default();
        for _ in 0..REFERENCES_MAX {
            assert!(exports.add(handler()).is_some());
        }
        assert!(exports.add(handler()).is_none());
    }

    #[test]
    fn an_escaped_object_holds_no_function() {
        let mut found = Vec::new();
        let value = json!({"$object": {"$fn": "f1", "real": {"$fn": "f2"}}});
        each_function(&value, |id| found.push(id));
        assert_eq!(found, ["f2"]);
    }

    #[test]
    fn the_last_handle_gives_up_every_receipt_at_once() {
        let imports = Imports::default();
        imports.note_received(&json!([{"$fn": "f1"}, {"$fn": "f1"}]));
        assert!(imports.hold("f1") && imports.hold("f1"));
        assert!(!imports.hold("f2"));
        imports.let_go("f1");
        assert!(imports.take_given_up().is_empty());
        imports.let_go("f1");
        let given_up = imports.take_given_up();
        assert_eq!(serde_json::to_value(given_up).unwrap(), json!([{"ref": "f1", "count": 2}]));
        assert!(!imports.hold("f1"));
    }
}
