//! Values between the guest and the wire.
//!
//! [`encode`] walks a JavaScript value into its wire form, [`decode`] builds one from it. Both are bounded in depth,
//! and encoding in bytes; both use only what the prelude kept aside before the script ran, so that a script's
//! changes to built-in prototypes never reach them.

mod class;
mod decode;
mod define;
mod encode;
mod form;
mod keys;
mod read;

pub(crate) use decode::{DecodeError, Decoder};
pub(crate) use define::field as define_field;
pub(crate) use encode::{EncodeError, Encoder, Fault};
pub(crate) use form::{Form, Text, Tree};
pub(crate) use read::has;

/// The functions that the prelude kept aside, by name: looked up when one is needed, which for most values is never.
pub(crate) type Kit<'a, 'js> = dyn Fn(&str) -> rquickjs::Result<rquickjs::Function<'js>> + 'a;
