//! JavaScript values that JSON has no form for, as Rust types: bytes, big integers and dates.
//!
//! Each is written as its tag (`{"$bytes": "…"}`), so a script gets a `Uint8Array`, a `bigint` or a `Date`, and the
//! TypeScript of a binding says so.
//!
//! ```
//! use scomp::package::Package;
//! use scomp::testing::TestServer;
//! use scomp::values::{BigInt, Bytes, Date};
//!
//! /// Returns the bytes in reverse order.
//! #[scomp::binding]
//! async fn reverse(bytes: Bytes) -> Bytes {
//!     bytes.iter().rev().copied().collect()
//! }
//!
//! /// Squares a number of any size up to 63 bits.
//! #[scomp::binding]
//! async fn square(number: BigInt) -> Result<BigInt, scomp::binding::BindingError> {
//!     let number = i64::try_from(&number)?;
//!     Ok(BigInt::from(i128::from(number) * i128::from(number)))
//! }
//!
//! /// Returns the moment one day later.
//! #[scomp::binding]
//! async fn next_day(at: Date) -> Option<Date> {
//!     Date::from_unix_ms(at.unix_ms() + 86_400_000)
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let package = Package::new("values").add::<reverse>().add::<square>().add::<next_day>();
//! let server = TestServer::start(package).await?;
//! assert_eq!(server.eval("[...await reverse({ bytes: new Uint8Array([1, 2]) })].join()").await?, "2,1");
//! assert_eq!(server.eval("(await square({ number: 4294967296n })) === 18446744073709551616n").await?, true);
//! let next: Date = server.eval_as("await nextDay({ at: new Date('2026-02-28') })").await?;
//! assert_eq!(next.to_string(), "2026-03-01T00:00:00.000Z");
//! # Ok(()) }
//! ```

mod bigint;
mod bytes;
mod date;

use std::fmt::Display;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize as _, Serializer};
use serde_json::{Map, Value, json};

pub use bigint::{BigInt, BigIntError};
pub use bytes::Bytes;
pub use date::{Date, DateError};

/// Reads the text in a tag.
fn read_tag<'de, D: Deserializer<'de>>(deserializer: D, tag: &str) -> Result<String, D::Error> {
    let mut fields = Map::<String, Value>::deserialize(deserializer)?;
    match fields.remove(tag) {
        Some(Value::String(text)) if fields.is_empty() => Ok(text),
        _ => Err(D::Error::custom(format_args!("expected a `{tag}`"))),
    }
}

fn write_tag<S: Serializer>(serializer: S, tag: &str, text: &impl Display) -> Result<S::Ok, S::Error> {
    json!({tag: text.to_string()}).serialize(serializer)
}

/// The schema of a tag; `describe` says what the text in it is.
fn tag_schema(tag: &str, text: Value) -> schemars::Schema {
    let mut schema = Map::new();
    schema.insert("type".to_owned(), json!("object"));
    schema.insert("properties".to_owned(), json!({tag: text}));
    schema.insert("required".to_owned(), json!([tag]));
    schema.insert("additionalProperties".to_owned(), json!(false));
    schema.into()
}
