//! The arguments of functions that cross the wire, and the schemas of such functions.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{Function, type_schema};

/// The arguments of a [`Function`]: a tuple of up to four types.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tuple of arguments",
    label = "expected a tuple of up to four types that implement `Serialize` and `JsonSchema`",
    note = "one argument is a tuple too: `Function<(f64,), String>`"
)]
pub trait Arguments: sealed::Sealed {
    /// How many they are.
    #[doc(hidden)]
    const COUNT: usize;

    /// Each of them in its wire form.
    #[doc(hidden)]
    fn to_values(&self) -> serde_json::Result<Vec<Value>>;

    /// The schema of the argument, if it is one.
    #[doc(hidden)]
    fn single_schema() -> Option<Value>;

    /// The arguments of a caller, in the form that is read as this tuple: JavaScript functions take any number.
    #[doc(hidden)]
    fn fit(arguments: Value) -> Value {
        let mut arguments = match arguments {
            Value::Array(arguments) => arguments,
            argument => vec![argument],
        };
        arguments.resize(Self::COUNT, Value::Null);
        if Self::COUNT == 0 { Value::Null } else { Value::Array(arguments) }
    }
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! arguments {
    ($count:literal $($name:ident)*) => {
        impl<$($name: Serialize + JsonSchema),*> sealed::Sealed for ($($name,)*) {}

        impl<$($name: Serialize + JsonSchema),*> Arguments for ($($name,)*) {
            const COUNT: usize = $count;

            fn to_values(&self) -> serde_json::Result<Vec<Value>> {
                #[allow(non_snake_case)]
                let ($($name,)*) = self;
                Ok(vec![$(serde_json::to_value($name)?),*])
            }

            fn single_schema() -> Option<Value> {
                let schemas: [fn() -> Value; $count] = [$(type_schema::of_output::<$name>),*];
                if let [schema] = schemas.as_slice() { Some(schema()) } else { None }
            }
        }
    };
}

arguments!(0);
arguments!(1 A);
arguments!(2 A B);
arguments!(3 A B C);
arguments!(4 A B C D);

impl<Args: Arguments, Ret: JsonSchema> JsonSchema for Function<Args, Ret> {
    fn schema_name() -> Cow<'static, str> {
        "Function".into()
    }

    /// A declared function is found only where its schema stands, not behind a `$ref`.
    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut types = Map::new();
        if let Some(input) = Args::single_schema() {
            types.insert("input".to_owned(), input);
        }
        let output = type_schema::of_input::<Ret>();
        // JavaScript returns `undefined` where a Rust type has nothing to say, which no schema of a Rust type allows.
        if !allows_null(&output) {
            types.insert("output".to_owned(), output);
        }
        let mut schema = Map::new();
        schema.insert("type".to_owned(), json!("object"));
        schema.insert("required".to_owned(), json!(["$fn"]));
        schema.insert("x-fn".to_owned(), Value::Object(types));
        schema.into()
    }
}

fn allows_null(schema: &Value) -> bool {
    let is_null = |value: &Value| value == "null";
    let by_type = |schema: &Value| match schema.get("type") {
        Some(Value::Array(types)) => types.iter().any(is_null),
        Some(one) => is_null(one),
        None => false,
    };
    let alternatives = ["anyOf", "oneOf"].into_iter().filter_map(|key| schema.get(key)?.as_array());
    let says_nothing = match schema {
        Value::Object(keywords) => keywords.keys().all(|key| key == "title" || key == "description"),
        _ => true,
    };
    says_nothing || by_type(schema) || alternatives.flatten().any(by_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema<A: Arguments, R: JsonSchema>() -> Value {
        type_schema::of_input::<Function<A, R>>()["x-fn"].clone()
    }

    #[test]
    fn function_schema_has_argument_and_result() {
        let typed = schema::<(String,), bool>();
        assert_eq!(typed["input"]["type"], "string");
        assert_eq!(typed["output"]["type"], "boolean");
        assert_eq!(schema::<(u8, u8), ()>(), json!({}));
        assert_eq!(schema::<(), Option<String>>(), json!({}));
        assert_eq!(schema::<(), Value>(), json!({}));
    }

    #[test]
    fn arguments_of_javascript_fit_the_tuple() {
        assert_eq!(<(u8, u8)>::fit(json!([1])), json!([1, null]));
        assert_eq!(<(u8,)>::fit(json!([1, 2])), json!([1]));
        assert_eq!(<(u8,)>::fit(json!(1)), json!([1]));
        assert_eq!(<()>::fit(json!([1])), json!(null));
        assert_eq!((1, "a").to_values().unwrap(), [json!(1), json!("a")]);
    }
}
