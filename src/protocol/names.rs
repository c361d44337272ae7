//! Which names a binding may have, and which of them can stand side by side.
//!
//! A script sees `memory.transact` as a property of a global object `memory`. So a name must be writable as
//! JavaScript, must not reach into prototypes, must not hide a global of the guest, and cannot be both a function
//! and an object that holds functions. Identifiers are ASCII letters, digits, `_` and `$` only: two names that look
//! alike in a prompt are then the same name.

use std::collections::HashMap;

/// Longest name.
/// It stands in every call, log line and stack trace; 128 bytes hold eight words of sixteen letters.
pub(crate) const NAME_BYTES_MAX: usize = 128;

/// Most segments of a name.
/// Each one is an object in the guest's global scope.
pub(crate) const NAME_SEGMENTS_MAX: usize = 8;

/// Bindings that the server itself calls at the client. Scripts do not see them, so the rule about globals is not
/// theirs: keep them out of the [`NameSet`].
pub(crate) const SERVER_CALLED: [&str; 4] = [APPROVE, BINDINGS_CHANGED, CALL_CANCEL, CONSOLE_WRITE];

/// Decides whether a call may be made.
pub(crate) const APPROVE: &str = "approve";

/// Gets the names of the server's bindings that were added, changed and removed.
pub(crate) const BINDINGS_CHANGED: &str = "bindings.changed";

/// Gets the keys of calls whose answers are not awaited any more.
pub(crate) const CALL_CANCEL: &str = "call.cancel";

/// Gets console lines as they are printed.
pub(crate) const CONSOLE_WRITE: &str = "console.write";

const FORBIDDEN_SEGMENTS: [&str; 3] = ["__proto__", "constructor", "prototype"];

/// Names that the guest's global object has, by the language or by the prelude. Sorted, for the binary search.
#[rustfmt::skip]
const GLOBALS: &[&str] = &[
    "AbortController", "AbortSignal", "AggregateError", "Array", "ArrayBuffer", "AsyncDisposableStack",
    "AsyncIterator", "Atomics", "BigInt", "BigInt64Array", "BigUint64Array", "Boolean", "CustomEvent",
    "DOMException", "DataView", "Date", "DisposableStack", "Error", "EvalError", "Event", "EventTarget",
    "FinalizationRegistry", "Float16Array", "Float32Array", "Float64Array", "Function", "Infinity",
    "Int16Array", "Int32Array", "Int8Array", "InternalError", "Intl", "Iterator", "JSON", "Map", "Math",
    "NaN", "Number", "Object", "Performance", "Promise", "Proxy", "RangeError", "ReferenceError", "Reflect",
    "RegExp", "Set", "SharedArrayBuffer", "String", "SuppressedError", "Symbol", "SyntaxError", "Temporal",
    "TextDecoder", "TextEncoder", "TypeError", "URIError", "URL", "URLSearchParams", "Uint16Array",
    "Uint32Array", "Uint8Array", "Uint8ClampedArray", "WeakMap", "WeakRef", "WeakSet", "__defineGetter__",
    "__defineSetter__", "__lookupGetter__", "__lookupSetter__", "__readonly", "atob", "btoa", "clearInterval",
    "clearTimeout", "console", "crypto", "decodeURI", "decodeURIComponent", "encodeURI", "encodeURIComponent",
    "escape", "eval", "globalThis", "hasOwnProperty", "isFinite", "isNaN", "isPrototypeOf", "parseFloat",
    "parseInt", "performance", "propertyIsEnumerable", "queueMicrotask", "setInterval", "setTimeout",
    "structuredClone", "toLocaleString", "toString", "undefined", "unescape", "valueOf",
];

/// Words that cannot be read as a variable in some mode of the language. Sorted. After a dot they are fine
/// (`kv.delete`), so only a first segment is held against this list.
#[rustfmt::skip]
const RESERVED_WORDS: &[&str] = &[
    "arguments", "await", "break", "case", "catch", "class", "const", "continue", "debugger", "default",
    "delete", "do", "else", "enum", "export", "extends", "false", "finally", "for", "function", "if",
    "implements", "import", "in", "instanceof", "interface", "let", "new", "null", "package", "private",
    "protected", "public", "return", "static", "super", "switch", "this", "throw", "true", "try", "typeof",
    "var", "void", "while", "with", "yield",
];

/// Why a name was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NameError {
    /// Longer than [`NAME_BYTES_MAX`].
    #[error("expected a name of at most {NAME_BYTES_MAX} bytes, got {0}")]
    TooLong(usize),
    /// More segments than [`NAME_SEGMENTS_MAX`].
    #[error("expected at most {NAME_SEGMENTS_MAX} segments, got {0}")]
    TooManySegments(usize),
    /// A segment that is no identifier.
    #[error("`{0}` is not an identifier; expected ASCII letters, digits, `_` and `$`, with no digit first")]
    NotAnIdentifier(String),
    /// A segment that would reach a prototype.
    #[error("the segment `{0}` would reach into a prototype")]
    Prototype(String),
    /// The first segment is a global of the guest.
    #[error("`{0}` is a global of the guest")]
    Global(String),
    /// The first segment is a word of the language.
    #[error("`{0}` is a reserved word and cannot come first")]
    ReservedWord(String),
    /// The very name is there already.
    #[error("`{0}` is declared twice")]
    Duplicate(String),
    /// One name is a prefix of another.
    #[error("`{prefix}` cannot be both a function and a namespace with `{longer}`")]
    Prefix {
        /// The shorter of the two.
        prefix: String,
        /// The longer of the two.
        longer: String,
    },
}

/// Whether the server calls this client binding itself, out of the scripts' sight.
pub(crate) fn is_server_called(name: &str) -> bool {
    SERVER_CALLED.contains(&name)
}

/// Whether `word` can be read only after a dot.
pub(crate) fn is_reserved_word(word: &str) -> bool {
    RESERVED_WORDS.binary_search(&word).is_ok()
}

/// Holds a name alone against the rules.
pub(crate) fn check(name: &str) -> Result<(), NameError> {
    if name.len() > NAME_BYTES_MAX {
        return Err(NameError::TooLong(name.len()));
    }
    let segment_count = name.split('.').count();
    if segment_count > NAME_SEGMENTS_MAX {
        return Err(NameError::TooManySegments(segment_count));
    }
    for segment in name.split('.') {
        check_segment(segment)?;
    }
    let first = name.split('.').next().unwrap_or_default();
    if GLOBALS.binary_search(&first).is_ok() {
        return Err(NameError::Global(first.to_owned()));
    }
    if is_reserved_word(first) {
        return Err(NameError::ReservedWord(first.to_owned()));
    }
    Ok(())
}

fn check_segment(segment: &str) -> Result<(), NameError> {
    if !is_identifier(segment) {
        return Err(NameError::NotAnIdentifier(segment.to_owned()));
    }
    if FORBIDDEN_SEGMENTS.contains(&segment) {
        return Err(NameError::Prototype(segment.to_owned()));
    }
    Ok(())
}

/// Whether `text` is an identifier of ASCII letters, digits, `_` and `$`.
pub(crate) fn is_identifier(text: &str) -> bool {
    let starts_well = text.starts_with(|first: char| !first.is_ascii_digit());
    starts_well && text.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '$'))
}

/// Names that can stand side by side.
#[derive(Debug, Clone, Default)]
pub(crate) struct NameSet {
    /// Every name, and every prefix of one with the first name that goes through it.
    taken: HashMap<String, Taken>,
}

#[derive(Debug, Clone)]
enum Taken {
    Name,
    PrefixOf(String),
}

impl NameSet {
    /// Adds a name that keeps the rules and clashes with none that is there; a refused one leaves no trace.
    pub(crate) fn insert(&mut self, name: &str) -> Result<(), NameError> {
        self.insert_beside(name, &Self::default())
    }

    /// The same for one that must not clash with `others` either.
    pub(crate) fn insert_beside(&mut self, name: &str, others: &Self) -> Result<(), NameError> {
        check(name)?;
        if let Some(error) = others.conflict(name).or_else(|| self.conflict(name)) {
            return Err(error);
        }
        for prefix in prefixes(name) {
            self.taken.entry(prefix.to_owned()).or_insert_with(|| Taken::PrefixOf(name.to_owned()));
        }
        self.taken.insert(name.to_owned(), Taken::Name);
        Ok(())
    }

    /// Why a name cannot stand beside those that are there; `None` if it can.
    pub(crate) fn conflict(&self, name: &str) -> Option<NameError> {
        match self.taken.get(name) {
            Some(Taken::Name) => return Some(NameError::Duplicate(name.to_owned())),
            Some(Taken::PrefixOf(longer)) => return Some(prefix_clash(name, longer)),
            None => {}
        }
        let prefix = prefixes(name).find(|prefix| matches!(self.taken.get(*prefix), Some(Taken::Name)));
        prefix.map(|prefix| prefix_clash(prefix, name))
    }

    /// Whether a name is there, or one that continues it after a dot.
    pub(crate) fn has_name_or_prefix(&self, name: &str) -> bool {
        self.taken.contains_key(name)
    }

    /// Whether this very name was inserted.
    pub(crate) fn contains(&self, name: &str) -> bool {
        matches!(self.taken.get(name), Some(Taken::Name))
    }
}

fn prefix_clash(prefix: &str, longer: &str) -> NameError {
    NameError::Prefix { prefix: prefix.to_owned(), longer: longer.to_owned() }
}

/// `a.b.c` gives `a`, `a.b`.
fn prefixes(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('.').filter_map(|(dot, _)| name.get(..dot))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_are_sorted_so_that_the_search_finds_every_word() {
        assert!(GLOBALS.is_sorted());
        assert!(RESERVED_WORDS.is_sorted());
    }

    #[test]
    fn ordinary_names_pass() {
        for name in
            ["getOrder", "memory.transact", "kv.delete", "a.class.new", "$x._y1", "constructors", "a.console"]
        {
            assert_eq!(check(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn unwritable_segments_are_refused() {
        for name in
            ["", ".", "a.", ".a", "a..b", "1a", "a.1", "a-b", "a b", "größe", "a\u{200d}", "a[0]", "a.\n"]
        {
            assert!(matches!(check(name), Err(NameError::NotAnIdentifier(_))), "{name}");
        }
    }

    #[test]
    fn prototypes_are_out_of_reach() {
        for name in ["__proto__", "a.__proto__.b", "a.constructor", "prototype.x"] {
            assert!(matches!(check(name), Err(NameError::Prototype(_))), "{name}");
        }
    }

    #[test]
    fn globals_and_words_are_refused_in_the_first_place_only() {
        for name in
            ["console", "console.write", "URL", "undefined.a", "Promise", "globalThis.x", "__readonly"]
        {
            assert!(matches!(check(name), Err(NameError::Global(_))), "{name}");
        }
        for name in ["await", "class.a", "null", "let", "delete.x", "this"] {
            assert!(matches!(check(name), Err(NameError::ReservedWord(_))), "{name}");
        }
    }

    #[test]
    fn length_and_segments_hold_at_the_edge_and_not_past_it() {
        assert_eq!(check(&"a".repeat(NAME_BYTES_MAX)), Ok(()));
        assert_eq!(check(&"a".repeat(NAME_BYTES_MAX + 1)), Err(NameError::TooLong(NAME_BYTES_MAX + 1)));
        assert_eq!(check(&["a"; NAME_SEGMENTS_MAX].join(".")), Ok(()));
        let longer = ["a"; NAME_SEGMENTS_MAX + 1].join(".");
        assert_eq!(check(&longer), Err(NameError::TooManySegments(NAME_SEGMENTS_MAX + 1)));
    }

    #[test]
    fn second_declaration_of_a_name_is_a_duplicate() {
        let mut names = NameSet::default();
        names.insert("a.b").unwrap();
        assert_eq!(names.insert("a.b"), Err(NameError::Duplicate("a.b".into())));
        assert!(names.contains("a.b"));
        assert!(!names.contains("a"));
    }

    #[test]
    fn prefix_is_refused_whichever_comes_first() {
        let clash = NameError::Prefix { prefix: "a".into(), longer: "a.b.c".into() };
        let mut names = NameSet::default();
        names.insert("a").unwrap();
        assert_eq!(names.insert("a.b.c"), Err(clash.clone()));
        let mut names = NameSet::default();
        names.insert("a.b.c").unwrap();
        assert_eq!(names.insert("a"), Err(clash));
        names.insert("ab").unwrap();
        names.insert("a.b.d").unwrap();
    }

    #[test]
    fn refused_name_leaves_no_trace() {
        let mut names = NameSet::default();
        names.insert("a.b").unwrap();
        names.insert("a.b.c").unwrap_err();
        names.insert("x.y.1").unwrap_err();
        names.insert("x").unwrap();
    }

    proptest! {
        #[test]
        fn set_agrees_with_a_comparison_of_all_pairs(names in prop::collection::vec("[ab](\\.[ab]){0,3}", 0..12)) {
            let mut set = NameSet::default();
            let mut accepted: Vec<String> = Vec::new();
            for name in names {
                let clashes = accepted.iter().any(|other| {
                    *other == name || other.starts_with(&format!("{name}.")) || name.starts_with(&format!("{other}."))
                });
                prop_assert_eq!(set.insert(&name).is_err(), clashes);
                if !clashes {
                    accepted.push(name);
                }
            }
        }
    }
}
