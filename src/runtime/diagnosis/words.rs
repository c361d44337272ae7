//! Kinds of values and methods of built-in classes, in words.

/// The kind of a value with its article.
pub(super) fn with_article(kind: &str) -> &str {
    match kind {
        "array" => "an array",
        "promise" => "a Promise",
        "map" => "a Map",
        "set" => "a Set",
        "date" => "a Date",
        "regexp" => "a RegExp",
        "string" => "a string",
        "number" => "a number",
        "bigint" => "a bigint",
        "boolean" => "a boolean",
        "symbol" => "a symbol",
        "function" => "a function",
        "object" => "an object",
        "proxy" => "a proxy",
        other => other,
    }
}

const ARRAY_METHODS: &[&str] = &[
    "map",
    "filter",
    "forEach",
    "reduce",
    "reduceRight",
    "find",
    "findIndex",
    "findLast",
    "some",
    "every",
    "flatMap",
    "flat",
    "push",
    "pop",
    "shift",
    "unshift",
    "splice",
    "sort",
    "reverse",
    "join",
    "fill",
    "toSorted",
    "toReversed",
];

const STRING_METHODS: &[&str] = &[
    "trim",
    "trimStart",
    "trimEnd",
    "split",
    "toUpperCase",
    "toLowerCase",
    "padStart",
    "padEnd",
    "startsWith",
    "endsWith",
    "replace",
    "replaceAll",
    "charAt",
    "charCodeAt",
    "codePointAt",
    "repeat",
    "match",
    "matchAll",
    "localeCompare",
    "substring",
];

const OTHER_METHODS: &[&str] = &[
    "slice",
    "includes",
    "indexOf",
    "lastIndexOf",
    "concat",
    "at",
    "then",
    "catch",
    "finally",
    "toFixed",
    "toISOString",
    "getTime",
    "getFullYear",
    "entries",
    "keys",
    "values",
    "has",
    "get",
    "set",
    "add",
    "delete",
    "clear",
    "toString",
];

/// Whose method a name is, if only one class has it.
pub(super) fn owner_of_method(name: &str) -> Option<&'static str> {
    if ARRAY_METHODS.contains(&name) {
        return Some("an array");
    }
    STRING_METHODS.contains(&name).then_some("a string")
}

/// The names of the methods that values mostly have.
pub(super) fn builtin_methods() -> Vec<String> {
    [ARRAY_METHODS, STRING_METHODS, OTHER_METHODS].concat().into_iter().map(str::to_owned).collect()
}
