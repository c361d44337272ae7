//! A catalog as data: what it was made from, from which it is compiled again.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{Catalog, CompiledSchemas};
use crate::protocol::declaration::Declaration;
use crate::protocol::names::{NameSet, is_server_called};
use crate::schema::{SchemaBudget, SchemaSource};

#[derive(Serialize, Deserialize)]
struct StoredEntry {
    number: u32,
    declaration: Declaration,
    timeout: Option<Duration>,
}

#[derive(Serialize, Deserialize)]
struct StoredCatalog {
    /// Zero for the catalog of a client.
    version: u64,
    entries: Vec<StoredEntry>,
}

impl Serialize for Catalog {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let stored = |(number, entry): (&u32, &Arc<super::CatalogEntry>)| StoredEntry {
            number: *number,
            declaration: entry.declaration.clone(),
            timeout: entry.timeout,
        };
        let entries = self.numbers.iter().zip(&self.entries).map(stored).collect();
        StoredCatalog { version: self.version, entries }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Catalog {
    /// Compiles again what was accepted before, so nothing is charged.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let StoredCatalog { version, entries } = StoredCatalog::deserialize(deserializer)?;
        let budget = SchemaBudget::new(usize::MAX);
        let source = if version == 0 { SchemaSource::Client(&budget) } else { SchemaSource::Executable };
        let (mut names, mut numbered) = (NameSet::default(), Vec::new());
        for StoredEntry { number, declaration, timeout } in entries {
            if !(version == 0 && is_server_called(&declaration.name)) {
                names.insert(&declaration.name).map_err(de::Error::custom)?;
            }
            if numbered.last().is_some_and(|(last, _)| *last >= number) {
                return Err(de::Error::custom("the numbers of a catalog must ascend"));
            }
            let schemas = CompiledSchemas::compile(&declaration, source).map_err(de::Error::custom)?;
            numbered.push((number, Arc::new(schemas.into_entry(declaration, timeout))));
        }
        Ok(Self::new(version, numbered, names))
    }
}
