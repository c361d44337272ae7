//! The name of a function that crossed a boundary.
//!
//! Functions of three origins meet in a session, and each origin numbers its own. The name says whose a function is, so
//! that a client may choose any id: one that looks like a name of ours is still only the client's. The text form
//! is what stands in `$fn` between a session and its handlers, and what the script's context keeps as an opaque key.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The connection of functions that belong to none. Connections are numbered from 1.
const NO_CONNECTION: u64 = 0;

/// How a session and its host name a function that crossed between them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum FnRef {
    /// A function of the script: `f7`.
    Script(u64),
    /// A function that a handler exported: `h3`.
    Handler(u64),
    /// A function of the client of that connection: `2:c1`. The client chooses `id`.
    #[allow(missing_docs)]
    Client { connection: u64, id: String },
}

/// A text that names no function.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid function reference {0:?}")]
pub(crate) struct InvalidFnRef(String);

impl FnRef {
    /// A function that does not exist. Values that a handler builds may contain any text; the function that the script gets
    /// for it fails when it is called, as one whose connection has ended does.
    pub(crate) fn unknown(text: &str) -> Self {
        Self::Client { connection: NO_CONNECTION, id: text.to_owned() }
    }

    /// Reads a name; a text of another form is a function that does not exist.
    pub(crate) fn parse_or_unknown(text: &str) -> Self {
        text.parse().unwrap_or_else(|_| Self::unknown(text))
    }

    /// The number of a function of the script.
    pub(crate) fn script_number(&self) -> Option<u64> {
        match self {
            Self::Script(number) => Some(*number),
            Self::Handler(_) | Self::Client { .. } => None,
        }
    }

    /// The client's own id of a function of that connection.
    pub(crate) fn client_id(&self, of_connection: u64) -> Option<&str> {
        match self {
            Self::Client { connection, id } => (*connection == of_connection).then_some(id),
            Self::Script(_) | Self::Handler(_) => None,
        }
    }
}

impl fmt::Display for FnRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Script(number) => write!(f, "f{number}"),
            Self::Handler(number) => write!(f, "h{number}"),
            Self::Client { connection, id } => write!(f, "{connection}:{id}"),
        }
    }
}

impl FromStr for FnRef {
    type Err = InvalidFnRef;

    fn from_str(text: &str) -> Result<Self, InvalidFnRef> {
        let parsed = match text.as_bytes().first() {
            Some(b'f') => read_number(&text[1..]).map(Self::Script),
            Some(b'h') => read_number(&text[1..]).map(Self::Handler),
            _ => text.split_once(':').and_then(|(connection, id)| {
                Some(Self::Client { connection: read_number(connection)?, id: id.to_owned() })
            }),
        };
        parsed.ok_or_else(|| InvalidFnRef(text.to_owned()))
    }
}

/// Reads a number as it is written by `Display`: a second spelling would be a second name of the same function.
fn read_number(digits: &str) -> Option<u64> {
    let is_canonical =
        digits == "0" || (!digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit()));
    digits.parse().ok().filter(|_| is_canonical)
}

impl Serialize for FnRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for FnRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_ref() -> impl Strategy<Value = FnRef> {
        let ids = prop_oneof![any::<String>(), "[fh][0-9]{1,3}", "[0-9]{1,3}:[a-z:]{0,3}"];
        prop_oneof![
            any::<u64>().prop_map(FnRef::Script),
            any::<u64>().prop_map(FnRef::Handler),
            (any::<u64>(), ids).prop_map(|(connection, id)| FnRef::Client { connection, id }),
        ]
    }

    proptest! {
        #[test]
        fn fn_ref_text_reads_back_as_the_same_name(name in any_ref()) {
            prop_assert_eq!(name.to_string().parse::<FnRef>(), Ok(name.clone()));
            let json = serde_json::to_string(&name).unwrap();
            prop_assert_eq!(serde_json::from_str::<FnRef>(&json).unwrap(), name);
        }

        #[test]
        fn fn_ref_has_one_text_only(text in "[fh]?[0-9+]{0,4}:?[a-z0-9:]{0,3}") {
            if let Ok(name) = text.parse::<FnRef>() {
                prop_assert_eq!(name.to_string(), text);
            }
        }
    }

    #[test]
    fn fn_ref_of_another_form_is_refused() {
        for text in
            ["", "f", "h", "f+7", "f07", "f 7", "f-1", "f1:x", "hx", "c1", ":c1", "+1:c1", "01:c1", "host:7"]
        {
            assert_eq!(text.parse::<FnRef>(), Err(InvalidFnRef(text.to_owned())));
        }
        assert!("f18446744073709551616".parse::<FnRef>().is_err());
    }

    #[test]
    fn client_id_that_looks_like_ours_stays_the_clients() {
        for id in ["f7", "h3", "1:x", "", ":", "2:c1"] {
            let name: FnRef = format!("2:{id}").parse().unwrap();
            assert_eq!((name.client_id(2), name.client_id(1), name.script_number()), (Some(id), None, None));
        }
    }

    #[test]
    fn unknown_reference_belongs_to_no_connection() {
        assert_eq!(FnRef::parse_or_unknown("h3"), FnRef::Handler(3));
        assert_eq!(FnRef::parse_or_unknown("anything").client_id(1), None);
    }
}
