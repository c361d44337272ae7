//! Links in documents, in both representations.

use super::super::codec::Data;
use super::super::path::Path;

/// A reference to a path in a document; without `id`, in the same document.
#[derive(Debug, Default)]
pub(super) struct Link {
    pub(super) id: Option<String>,
    pub(super) path: Path,
    pub(super) space: Option<String>,
    pub(super) scope: Option<String>,
    pub(super) schema: Option<Data>,
}

impl Link {
    /// `None` if the value is not a link.
    pub(super) fn parse(data: &Data) -> Option<Self> {
        match data {
            Data::Map(members) if members.len() == 1 => {
                Self::from_payload(members.get("/")?.get("link@1")?, Data::clone)
            }
            Data::Tag(tag, state) if tag == "/Link@1" => Self::from_payload(state, Data::interpret_tags),
            Data::Null | Data::Bool(_) | Data::Number(_) | Data::Text(_) | Data::List(_) => None,
            Data::Map(_) | Data::Tag(..) => None,
        }
    }

    fn from_payload(payload: &Data, decode_schema: fn(&Data) -> Data) -> Option<Self> {
        payload.as_map()?;
        let text = |key: &str| payload.get(key).and_then(Data::as_str).map(str::to_owned);
        let path = payload.get("path").and_then(Data::as_list).unwrap_or_default();
        Some(Self {
            id: text("id"),
            path: path.iter().filter_map(parse_step).collect(),
            space: text("space"),
            scope: text("scope"),
            schema: payload.get("schema").map(decode_schema),
        })
    }
}

fn parse_step(data: &Data) -> Option<String> {
    match data {
        Data::Text(step) => Some(step.clone()),
        Data::Number(number) => Some(number.to_string()),
        Data::Null | Data::Bool(_) | Data::List(_) | Data::Map(_) | Data::Tag(..) => None,
    }
}
