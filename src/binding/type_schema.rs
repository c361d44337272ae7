//! JSON Schemas of Rust types, as declarations use them.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// The schema of what is read as `T`; what it refers to is in its own `$defs`.
pub(crate) fn of_input<T: JsonSchema>() -> Value {
    schema_of::<T>(settings().for_deserialize())
}

/// The schema of what `T` is written as.
pub(crate) fn of_output<T: JsonSchema>() -> Value {
    schema_of::<T>(settings().for_serialize())
}

/// Every schema here is Draft 2020-12, so none has to name its draft.
fn settings() -> SchemaSettings {
    SchemaSettings::draft2020_12().with(|settings| settings.meta_schema = None)
}

fn schema_of<T: JsonSchema>(settings: SchemaSettings) -> Value {
    settings.into_generator().into_root_schema_for::<T>().to_value()
}
