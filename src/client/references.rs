//! Functions as values: those we sent to the server, those we received from it.
//!
//! Both sides count sendings, so both tables walk the values that pass. What we sent is owned by the driver. What we
//! received is shared with its handles, because a handle is released in `drop`, which can neither wait nor fail.

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;

use super::handler::Handler;
use crate::protocol::fn_values;
use crate::protocol::methods::ReleaseParams;
use crate::protocol::references;

/// Live references, each way: the protocol's own limit.
pub(super) const REFERENCES_MAX: usize = 10_000;

/// The functions that we sent to the server on this connection.
pub(super) struct Exports(references::Exports<Handler>);

impl Default for Exports {
    fn default() -> Self {
        Self(references::Exports::new(REFERENCES_MAX))
    }
}

impl Exports {
    /// Takes a function in and names it; `None` if there are too many.
    pub(super) fn add(&mut self, handler: Handler) -> Option<String> {
        self.0.add(handler).map(id_text)
    }

    pub(super) fn get(&self, id: &str) -> Option<&Handler> {
        self.0.get(read_id(id)?)
    }

    /// A value goes out: each function in it is sent once more.
    pub(super) fn note_sent(&mut self, value: &Value) {
        if !self.0.is_empty() {
            let mut count = |id| self.0.count_sent(id);
            fn_values::visit_ids(value, &mut |id| read_id(id).into_iter().for_each(&mut count));
        }
    }

    /// The server releases `count` sendings.
    pub(super) fn release(&mut self, ReleaseParams { reference, count }: &ReleaseParams) {
        drop(read_id(reference).and_then(|id| self.0.release(id, *count)));
    }
}

/// What we call a function of ours on the wire; the server does not look into it.
fn id_text(id: u64) -> String {
    format!("c{id}")
}

fn read_id(text: &str) -> Option<u64> {
    let id = text.strip_prefix('c')?.parse().ok()?;
    (id_text(id) == text).then_some(id)
}

/// The functions that we received from the server on this connection.
pub(super) struct Imports {
    table: Mutex<ImportTable>,
    released: Notify,
}

struct ImportTable {
    /// With the number of handles.
    functions: references::Imports<String, usize>,
    released: Vec<ReleaseParams>,
}

impl Default for Imports {
    fn default() -> Self {
        let functions = references::Imports::new(REFERENCES_MAX);
        let table = Mutex::new(ImportTable { functions, released: Vec::new() });
        Self { table, released: Notify::new() }
    }
}

impl Imports {
    /// A value came in: each function in it was received once more. One past the limit is not callable.
    pub(super) fn note_received(&self, value: &Value) {
        // Most values contain none, and then nothing is locked.
        let mut table = None;
        fn_values::visit_ids(value, &mut |id| {
            let table = table.get_or_insert_with(|| self.table.lock());
            table.functions.receive(id.to_owned());
        });
    }

    /// One more handle; `false` if no such function is here.
    pub(super) fn hold(&self, id: &str) -> bool {
        match self.table.lock().functions.get_mut(id) {
            Some(handles) => {
                *handles += 1;
                true
            }
            None => false,
        }
    }

    /// One handle less. With the last one, every receipt of that function is released.
    pub(super) fn release(&self, id: &str) {
        let mut table = self.table.lock();
        let Some(handles) = table.functions.get_mut(id) else {
            return;
        };
        *handles = handles.saturating_sub(1);
        if *handles == 0
            && let Some(count) = table.functions.remove(id)
        {
            table.released.push(ReleaseParams { reference: id.to_owned(), count });
            self.released.notify_one();
        }
    }

    /// Waits until a function was released.
    pub(super) async fn released(&self) {
        self.released.notified().await;
    }

    /// What was released and not yet sent.
    pub(super) fn take_released(&self) -> Vec<ReleaseParams> {
        std::mem::take(&mut self.table.lock().released)
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
    fn export_lives_until_every_sending_is_released() {
        let mut exports = Exports::default();
        let id = exports.add(handler()).unwrap();
        exports.note_sent(&json!([{"$fn": id}, {"deep": [{"$fn": id, "name": "x"}]}]));
        exports.release(&release(&id, 1));
        assert!(exports.get(&id).is_some());
        exports.release(&release("c99", 1));
        exports.release(&release("c01", 5));
        exports.release(&release(&id, 5));
        assert!(exports.get(&id).is_none());
        assert_ne!(exports.add(handler()).unwrap(), id);
    }

    #[test]
    fn export_past_the_limit_is_refused() {
        let mut exports = Exports::default();
        for _ in 0..REFERENCES_MAX {
            assert!(exports.add(handler()).is_some());
        }
        assert!(exports.add(handler()).is_none());
    }

    #[test]
    fn export_in_an_escaped_object_is_not_sent() {
        let mut exports = Exports::default();
        let (escaped, real) = (exports.add(handler()).unwrap(), exports.add(handler()).unwrap());
        exports.note_sent(&json!({"$object": {"$fn": escaped, "real": {"$fn": real}}}));
        for id in [&escaped, &real] {
            exports.release(&release(id, 1));
        }
        assert!(exports.get(&escaped).is_some() && exports.get(&real).is_none());
    }

    #[test]
    fn import_is_released_once_with_its_last_handle() {
        let imports = Imports::default();
        imports.note_received(&json!([{"$fn": "f1"}, {"$fn": "f1"}]));
        assert!(imports.hold("f1") && imports.hold("f1"));
        assert!(!imports.hold("f2"));
        imports.release("f1");
        assert!(imports.take_released().is_empty());
        imports.release("f1");
        let released = imports.take_released();
        assert_eq!(serde_json::to_value(released).unwrap(), json!([{"ref": "f1", "count": 2}]));
        assert!(!imports.hold("f1"));
    }
}
