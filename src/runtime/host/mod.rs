//! The functions that the prelude calls: how a script reaches its session and what JavaScript lacks.
//!
//! They are given to the prelude as one object, `host`, that no script ever sees. A script's heap holds nothing of Rust's,
//! so each is a number there, its place in [`HOST_FUNCTIONS`]; `call.rs` has the entry.
//!
//! A new host function is a function over its arguments, and a line in the table. One that needs nothing of the session
//! (`run`) is here: text encodings, URLs, values. Its first parameter is the context, its second a tuple of its arguments;
//! it returns anything that has a form in JavaScript, or an error. One that needs the session (`run_in`) is a method of
//! [`Guest`] in `../guest/host.rs`. Nothing is lost if a function never returns: it holds no borrow of the session, and of
//! memory outside the script's heap only what it is about to hand over, while it calls into QuickJS.
//!
//! Those here do not call back into JavaScript: a call from Rust would move the base from which QuickJS measures its
//! stack, and a script that recurses through it would overflow the native stack.
//! Lists handed to the prelude have no prototype (`new_list`), so that a setter a script plants on
//! `Array.prototype` can neither see nor change them.

mod call;
mod random;
mod text;
mod url;
mod values;

pub(crate) use call::{Call, HostFunction, call_function, install};
pub(crate) use random::uuid_text;
use rquickjs::{Array, Ctx, Result};

use super::guest::Guest;
use super::prelude;

/// The part of the prelude that every session has.
pub(crate) const CORE: &str = "core";

/// Each function with the part of the prelude that calls it: those of a unit are made when the unit is loaded.
#[rustfmt::skip]
pub(crate) static HOST_FUNCTIONS: &[HostFunction] = &[
    HostFunction { part: CORE, name: "loadUnit", run: prelude::load_unit },
    HostFunction { part: CORE, name: "proxyTarget", run: |call| call.run(values::proxy_target) },
    HostFunction { part: CORE, name: "write", run: |call| call.run_in(Guest::write) },
    HostFunction { part: CORE, name: "reportError", run: |call| call.run_in(Guest::report_error) },
    HostFunction { part: CORE, name: "setTimer", run: |call| call.run_in(Guest::set_timer) },
    HostFunction { part: CORE, name: "clearTimer", run: |call| call.run_in(Guest::clear_timer) },
    HostFunction { part: CORE, name: "numberOf", run: |call| call.run_in(Guest::number_of) },
    HostFunction { part: CORE, name: "call", run: |call| call.run_in(Guest::call_binding) },
    HostFunction { part: CORE, name: "callReference", run: |call| call.run_in(Guest::call_reference) },
    HostFunction { part: CORE, name: "release", run: |call| call.run_in(Guest::release_reference) },
    HostFunction { part: CORE, name: "noteShadow", run: |call| call.run_in(Guest::note_shadow) },
    HostFunction { part: CORE, name: "now", run: |call| call.run_in(Guest::now_ms) },
    HostFunction { part: CORE, name: "timeOrigin", run: |call| call.run_in(Guest::time_origin_ms) },
    HostFunction { part: CORE, name: "randomBytes", run: |call| call.run_in(Guest::random_bytes) },
    HostFunction { part: CORE, name: "randomUUID", run: |call| call.run_in(Guest::random_uuid) },
    HostFunction { part: "values", name: "isPromise", run: |call| call.run(values::is_promise) },
    HostFunction { part: "values", name: "mapStack", run: |call| call.run_in(Guest::map_stack) },
    HostFunction { part: "encoding", name: "utf8Encode", run: |call| call.run(text::utf8_encode) },
    HostFunction { part: "encoding", name: "decode", run: |call| call.run(text::decode) },
    HostFunction { part: "url", name: "urlParse", run: |call| call.run(url::url_parse) },
    HostFunction { part: "url", name: "urlSet", run: |call| call.run(url::url_set) },
    HostFunction { part: "url", name: "formParse", run: |call| call.run(url::form_parse) },
    HostFunction { part: "url", name: "formSerialize", run: |call| call.run(url::form_serialize) },
    HostFunction { part: "inspect", name: "promiseState", run: |call| call.run(values::promise_state) },
];

/// An array without a prototype: filling it runs nothing that a script has put on `Array.prototype`.
pub(crate) fn new_list<'js>(ctx: &Ctx<'js>) -> Result<Array<'js>> {
    let list = Array::new(ctx.clone())?;
    list.as_object().set_prototype(None)?;
    Ok(list)
}
