//! What a script asks about its bindings: `search`, `describe` and `help` of the prelude.
//!
//! A script asks under names that no binding can have, because they begin with `bindings`.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::Session;
use super::boundary::HandlerTarget;
use crate::rpc::{ErrorObject, Kind};

/// Most names in one question.
pub(crate) const NAMES_MAX: usize = 64;

#[derive(Deserialize)]
struct SearchInput {
    query: String,
}

#[derive(Deserialize)]
struct NamesInput {
    names: Vec<String>,
}

impl Session {
    /// The host's work for a question of the script; `None` where `name` is something else.
    pub(crate) fn ask_about_bindings(
        &self,
        name: &str,
        input: &Value,
    ) -> Option<Result<HandlerTarget, ErrorObject>> {
        let is_brief = match name {
            "bindings.search" => return Some(self.search_for_script(input)),
            "bindings.describe" => false,
            "bindings.help" => true,
            _ => return None,
        };
        Some(read::<NamesInput>(name, input).and_then(|NamesInput { names }| {
            if names.len() > NAMES_MAX {
                let message = format!("expected at most {NAMES_MAX} names, got {}", names.len());
                return Err(ErrorObject::new(Kind::InvalidInput, message));
            }
            let (server, client) = self.catalogs();
            Ok(HandlerTarget::DescribeNames { server, client, names, is_brief })
        }))
    }

    fn search_for_script(&self, input: &Value) -> Result<HandlerTarget, ErrorObject> {
        let SearchInput { query } = read("bindings.search", input)?;
        let (server, client) = self.catalogs();
        Ok(HandlerTarget::Describe { server, client, query: Some(query) })
    }

    /// The bindings as the running script sees them.
    fn catalogs(&self) -> (Arc<crate::catalog::Catalog>, Arc<crate::catalog::Catalog>) {
        let client = self.state.client.as_ref().map(|client| Arc::clone(&client.bindings));
        (Arc::clone(&self.state.catalog), client.unwrap_or_default())
    }
}

fn read<T: for<'de> Deserialize<'de>>(name: &str, input: &Value) -> Result<T, ErrorObject> {
    T::deserialize(input).map_err(|error| ErrorObject::new(Kind::InvalidInput, format!("{name}: {error}")))
}
