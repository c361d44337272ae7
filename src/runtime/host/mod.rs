//! Host functions of the guest prelude that need nothing of the session: text encodings, URLs, random bytes.
//!
//! Each is a small function over plain arguments; `install` puts them on the `host` object the prelude is given.
//! None of them calls back into JavaScript: a call from Rust would move the base from which QuickJS measures its
//! stack, and a script that recurses through it would overflow the native stack.
//! Lists handed to the prelude have no prototype (`new_list`), so that a setter a script plants on
//! `Array.prototype` can neither see nor change them.

mod random;
mod text;
mod url;
mod values;

pub(crate) use random::uuid_text;
use rquickjs::{Array, Ctx, Object, Result, function::Func};

/// Adds what the core of the prelude calls to its `host` object.
pub(crate) fn install<'js>(host: &Object<'js>) -> Result<()> {
    host.set("proxyTarget", Func::from(values::proxy_target))
}

/// Adds what a unit of the prelude calls, before the unit is loaded: few sessions load any.
pub(crate) fn install_for_unit<'js>(unit: &str, host: &Object<'js>) -> Result<()> {
    match unit {
        "encoding" => {
            host.set("utf8Encode", Func::from(text::utf8_encode))?;
            host.set("decode", Func::from(text::decode))
        }
        "url" => {
            host.set("urlParse", Func::from(url::url_parse))?;
            host.set("urlSet", Func::from(url::url_set))?;
            host.set("formParse", Func::from(url::form_parse))?;
            host.set("formSerialize", Func::from(url::form_serialize))
        }
        "inspect" => host.set("promiseState", Func::from(values::promise_state)),
        _ => Ok(()),
    }
}

/// An array without a prototype: filling it runs nothing that a script has put on `Array.prototype`.
pub(crate) fn new_list<'js>(ctx: &Ctx<'js>) -> Result<Array<'js>> {
    let list = Array::new(ctx.clone())?;
    list.as_object().set_prototype(None)?;
    Ok(list)
}
