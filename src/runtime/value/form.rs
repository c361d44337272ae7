//! The two forms that a value takes outside: [`Text`] for the wire, and [`Tree`] for handlers and for schemas.
//!
//! One walk writes either. A tree of a large value takes several times the work of its text, and an answer to the
//! client would only be written from it and dropped.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};

use crate::protocol::shape::VALUE_BYTES;

/// What a walk writes, in order. Lengths are those of the JSON text, whatever the form.
pub(crate) trait Form: Default {
    /// What each value takes in memory beside its text.
    const NODE_BYTES: usize;
    /// A key that can be written more than once.
    type Key;
    /// The finished value.
    type Whole;

    /// `null`.
    fn null(&mut self);
    /// `true` or `false`.
    fn bool(&mut self, flag: bool);
    /// An integer that is safe in JavaScript.
    fn integer(&mut self, number: i64);
    /// Any other finite number; returns its length.
    fn float(&mut self, number: f64) -> usize;
    /// A string; returns its length.
    fn string(&mut self, text: &str) -> usize;
    /// Items follow.
    fn open_list(&mut self);
    /// No more items.
    fn close_list(&mut self);
    /// Fields follow; returns the place to pass at their end.
    fn open_fields(&mut self) -> usize;
    /// No more fields. They are put into an `$object` if they would read as a tag.
    fn close_fields(&mut self, place: usize, is_wrapped: bool);
    /// Makes a key.
    fn key_of(name: &str) -> Self::Key;
    /// The key of a field, before its value; returns the place to pass to [`Self::drop_key`].
    fn key(&mut self, key: &Self::Key) -> usize;
    /// The field is left out: its value turned out to be `undefined`.
    fn drop_key(&mut self, place: usize);
    /// Ends the walk.
    fn whole(self) -> Option<Self::Whole>;
}

/// JSON text.
#[derive(Default)]
pub(crate) struct Text(Vec<u8>);

impl Text {
    /// What is not the first in its list or object has a comma before it; a string ends in a quote, so no end of a
    /// value is mistaken for a beginning.
    fn separate(&mut self) {
        if !matches!(self.0.last(), None | Some(b'[' | b'{' | b':')) {
            self.0.push(b',');
        }
    }

    fn number(&mut self, number: impl Serialize) -> usize {
        self.separate();
        let start = self.0.len();
        // Writing to memory does not fail.
        let _ = serde_json::to_writer(&mut self.0, &number);
        self.0.len() - start
    }
}

impl Form for Text {
    const NODE_BYTES: usize = 0;
    /// With its quotes and its colon.
    type Key = Vec<u8>;
    type Whole = Box<RawValue>;

    fn null(&mut self) {
        self.separate();
        self.0.extend_from_slice(b"null");
    }

    fn bool(&mut self, flag: bool) {
        self.separate();
        self.0.extend_from_slice(if flag { b"true" } else { b"false" });
    }

    fn integer(&mut self, number: i64) {
        self.number(number);
    }

    fn float(&mut self, number: f64) -> usize {
        self.number(number)
    }

    fn string(&mut self, text: &str) -> usize {
        self.separate();
        let start = self.0.len();
        quote(text, &mut self.0);
        self.0.len() - start
    }

    fn open_list(&mut self) {
        self.separate();
        self.0.push(b'[');
    }

    fn close_list(&mut self) {
        self.0.push(b']');
    }

    fn open_fields(&mut self) -> usize {
        self.separate();
        self.0.push(b'{');
        self.0.len() - 1
    }

    fn close_fields(&mut self, place: usize, is_wrapped: bool) {
        self.0.push(b'}');
        if is_wrapped {
            self.0.splice(place..place, *br#"{"$object":"#);
            self.0.push(b'}');
        }
    }

    fn key_of(name: &str) -> Vec<u8> {
        let mut key = Vec::with_capacity(name.len() + 3);
        quote(name, &mut key);
        key.push(b':');
        key
    }

    fn key(&mut self, key: &Vec<u8>) -> usize {
        let place = self.0.len();
        self.separate();
        self.0.extend_from_slice(key);
        place
    }

    fn drop_key(&mut self, place: usize) {
        self.0.truncate(place);
    }

    fn whole(self) -> Option<Box<RawValue>> {
        RawValue::from_string(String::from_utf8(self.0).ok()?).ok()
    }
}

/// A value in memory.
#[derive(Default)]
pub(crate) struct Tree {
    /// The lists and objects around the current value.
    open: Vec<Open>,
    whole: Option<Value>,
}

enum Open {
    List(Vec<Value>),
    Fields(Map<String, Value>, Option<String>),
}

impl Tree {
    fn put(&mut self, value: Value) {
        match self.open.last_mut() {
            None => self.whole = Some(value),
            Some(Open::List(items)) => items.push(value),
            Some(Open::Fields(fields, key)) => {
                if let Some(key) = key.take() {
                    fields.insert(key, value);
                }
            }
        }
    }

    fn close(&mut self, is_wrapped: bool) {
        let value = match self.open.pop() {
            None => return,
            Some(Open::List(items)) => Value::Array(items),
            Some(Open::Fields(fields, _)) if is_wrapped => {
                Value::Object(Map::from_iter([("$object".to_owned(), Value::Object(fields))]))
            }
            Some(Open::Fields(fields, _)) => Value::Object(fields),
        };
        self.put(value);
    }
}

impl Form for Tree {
    const NODE_BYTES: usize = VALUE_BYTES;
    type Key = String;
    type Whole = Value;

    fn null(&mut self) {
        self.put(Value::Null);
    }

    fn bool(&mut self, flag: bool) {
        self.put(Value::Bool(flag));
    }

    fn integer(&mut self, number: i64) {
        self.put(Value::from(number));
    }

    fn float(&mut self, number: f64) -> usize {
        let number = Number::from_f64(number).map_or(Value::Null, Value::Number);
        let length = number.to_string().len();
        self.put(number);
        length
    }

    fn string(&mut self, text: &str) -> usize {
        self.put(Value::String(text.to_owned()));
        quoted_length(text)
    }

    fn open_list(&mut self) {
        self.open.push(Open::List(Vec::new()));
    }

    fn close_list(&mut self) {
        self.close(false);
    }

    fn open_fields(&mut self) -> usize {
        self.open.push(Open::Fields(Map::new(), None));
        0
    }

    fn close_fields(&mut self, _place: usize, is_wrapped: bool) {
        self.close(is_wrapped);
    }

    fn key_of(name: &str) -> String {
        name.to_owned()
    }

    fn key(&mut self, key: &String) -> usize {
        if let Some(Open::Fields(_, open)) = self.open.last_mut() {
            *open = Some(key.clone());
        }
        0
    }

    fn drop_key(&mut self, _place: usize) {
        if let Some(Open::Fields(_, key)) = self.open.last_mut() {
            *key = None;
        }
    }

    fn whole(self) -> Option<Value> {
        self.whole
    }
}

/// How long a string is as JSON text.
pub(super) fn quoted_length(text: &str) -> usize {
    let mut length = text.len() + 2;
    let mut rest = text.as_bytes();
    while let Some((_, byte, after)) = split_at_escape(rest) {
        length += if short_escape(byte).is_some() { 1 } else { 5 };
        rest = after;
    }
    length
}

/// Writes a string as JSON text.
fn quote(text: &str, out: &mut Vec<u8>) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some((before, byte, after)) = split_at_escape(rest) {
        out.extend_from_slice(before);
        out.push(b'\\');
        match short_escape(byte) {
            Some(letter) => out.push(letter),
            None => {
                let digit = |value: u8| if value < 10 { b'0' + value } else { b'a' + value - 10 };
                out.extend_from_slice(&[b'u', b'0', b'0', digit(byte >> 4), digit(byte & 15)]);
            }
        }
        rest = after;
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

fn short_escape(byte: u8) -> Option<u8> {
    match byte {
        b'"' | b'\\' => Some(byte),
        b'\n' => Some(b'n'),
        b'\r' => Some(b'r'),
        b'\t' => Some(b't'),
        8 => Some(b'b'),
        12 => Some(b'f'),
        _ => None,
    }
}

/// What is before the first byte that has to be escaped, that byte, and what is after it. Eight bytes are
/// compared in one step: most text has nothing to escape.
fn split_at_escape(bytes: &[u8]) -> Option<(&[u8], u8, &[u8])> {
    let (words, _) = bytes.as_chunks::<8>();
    let plain = words.iter().take_while(|word| !any_escape(u64::from_ne_bytes(**word))).count() * 8;
    let at = bytes.get(plain..)?.iter().position(|byte| matches!(byte, 0..=31 | b'"' | b'\\'))? + plain;
    let (before, rest) = bytes.split_at_checked(at)?;
    let (byte, after) = rest.split_first()?;
    Some((before, *byte, after))
}

/// Whether one of eight bytes has to be escaped.
fn any_escape(word: u64) -> bool {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHS: u64 = ONES << 7;
    // A subtraction borrows into the highest bit of a byte that is smaller, and only there if none is.
    let below = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit)) & !word & HIGHS;
    let equal = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    below(word, 32) | equal(b'"') | equal(b'\\') != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn strings_are_written_as_serde_writes_them(text in "[a-z\"\\\\\u{0}-\u{7f}\u{80}-\u{ff}\u{20ac}\u{1f600}]{0,40}") {
            let mut out = Vec::new();
            quote(&text, &mut out);
            prop_assert_eq!(String::from_utf8(out).unwrap(), serde_json::to_string(&text).unwrap());
            prop_assert_eq!(quoted_length(&text), serde_json::to_string(&text).unwrap().len());
        }
    }

    fn written<F: Form>() -> F::Whole {
        let mut form = F::default();
        let object = form.open_fields();
        form.key(&F::key_of("a"));
        form.open_list();
        form.integer(-1);
        form.string(",[");
        form.null();
        form.close_list();
        let dropped = form.key(&F::key_of("gone"));
        form.drop_key(dropped);
        form.key(&F::key_of("b"));
        let inner = form.open_fields();
        form.key(&F::key_of("$fn"));
        form.float(1.5);
        form.close_fields(inner, true);
        form.close_fields(object, false);
        form.whole().unwrap()
    }

    #[test]
    fn text_and_tree_forms_agree() {
        let text = written::<Text>();
        assert_eq!(text.get(), r#"{"a":[-1,",[",null],"b":{"$object":{"$fn":1.5}}}"#);
        assert_eq!(written::<Tree>().to_string(), text.get());
    }
}
