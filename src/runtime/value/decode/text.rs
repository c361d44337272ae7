//! Decoding of the text of a value, without a tree in between.
//!
//! A tree takes many times the memory of its text, and none of it counts towards the session's limit. Here only the value of
//! the script is built, in the session's own heap.
//!
//! The text is known to be JSON: it was cut out of a message that was. What is not known is whether an object is a tag.
//! That shows at its first key, except for a function, whose `$fn` may come later; then the object is read again.

use std::borrow::Cow;

use rquickjs::{Array, IntoJs as _, Object, Value as JsValue};
use serde_json::{Map, Value};

use super::super::define;
use super::{DecodeError, DecodeResult, Decoder};
use crate::protocol::plain::{FUNCTION_TAG, TAGS};
use crate::protocol::shape::end_of_string;

/// Longest text of a function with its schemas. It becomes a tree, so it is bounded.
const FUNCTION_BYTES_MAX: usize = 256 << 10;

/// Bytes that may be read twice, beside several times the text. A tag inside a tag is read again for each of them: no value of a megabyte comes near this, and one of sixteen cannot keep a shard busy for seconds.
const AGAIN_BYTES_MAX: usize = 128 << 20;

/// A place in the text.
struct Cursor<'t> {
    text: &'t str,
    at: usize,
    /// Bytes that may still be read twice.
    again_left: usize,
}

impl<'t> Cursor<'t> {
    fn new(text: &'t str) -> Self {
        let mut cursor = Self { text, at: 0, again_left: AGAIN_BYTES_MAX.saturating_add(8 * text.len()) };
        cursor.skip_space();
        cursor
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    /// Skips a mark and the space around it, if it is next.
    fn eat(&mut self, mark: u8) -> bool {
        self.skip_space();
        let is_next = self.peek() == Some(mark);
        if is_next {
            self.at += 1;
            self.skip_space();
        }
        is_next
    }

    fn expect(&mut self, mark: u8) -> Result<(), DecodeError> {
        if self.eat(mark) { Ok(()) } else { Err(DecodeError::new("the value is not JSON")) }
    }

    fn slice(&self, from: usize, to: usize) -> Result<&'t str, DecodeError> {
        self.text.get(from..to).ok_or_else(|| DecodeError::new("the value is not JSON"))
    }

    fn string(&mut self) -> Result<Cow<'t, str>, DecodeError> {
        if self.peek() != Some(b'"') {
            return Err(DecodeError::new("the value is not JSON"));
        }
        let end = end_of_string(self.text.as_bytes(), self.at + 1);
        let quoted = self.slice(self.at, end)?;
        self.at = end;
        if quoted.contains('\\') {
            let unescaped = serde_json::from_str::<String>(quoted);
            return unescaped.map(Cow::Owned).map_err(|_| DecodeError::new("a string with a lone surrogate"));
        }
        let inside = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        inside.map(Cow::Borrowed).ok_or_else(|| DecodeError::new("the value is not JSON"))
    }

    /// A number, `true`, `false` or `null`.
    fn word(&mut self) -> Result<&'t str, DecodeError> {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let is_end = |byte: &u8| matches!(byte, b',' | b']' | b'}' | b' ' | b'\n' | b'\r' | b'\t');
        let length = rest.iter().position(is_end).unwrap_or(rest.len());
        let word = self.slice(self.at, self.at + length)?;
        self.at += length;
        Ok(word)
    }

    /// Skips a value and returns its text.
    fn skip_value(&mut self) -> Result<&'t str, DecodeError> {
        let (start, bytes, mut depth) = (self.at, self.text.as_bytes(), 0_usize);
        loop {
            match bytes.get(self.at) {
                Some(b'"') => self.at = end_of_string(bytes, self.at + 1),
                Some(b'[' | b'{') => {
                    depth += 1;
                    self.at += 1;
                }
                Some(b']' | b'}') if depth > 0 => {
                    depth -= 1;
                    self.at += 1;
                }
                Some(_) if depth > 0 => self.at += 1,
                Some(_) => {
                    self.word()?;
                }
                None => break,
            }
            if depth == 0 {
                break;
            }
        }
        let too_much = || DecodeError::new("too many tags inside each other");
        self.again_left = self.again_left.checked_sub(self.at - start).ok_or_else(too_much)?;
        self.slice(start, self.at)
    }
}

impl<'js> Decoder<'_, 'js> {
    /// Builds the value of a JSON text.
    pub(crate) fn text(&mut self, text: &str) -> DecodeResult<'js> {
        self.read(&mut Cursor::new(text))
    }

    /// Builds each value of the list that a JSON text is.
    pub(crate) fn list(&mut self, text: &str) -> Result<Vec<JsValue<'js>>, DecodeError> {
        let mut values = Vec::new();
        self.read_items(&mut Cursor::new(text), |_, value| {
            values.push(value);
            Ok(())
        })?;
        Ok(values)
    }

    fn read(&mut self, cursor: &mut Cursor<'_>) -> DecodeResult<'js> {
        match cursor.peek() {
            Some(b'"') => {
                let text = cursor.string()?;
                self.map_build_error((*text).into_js(self.ctx))
            }
            Some(b'{') => self.deeper(|this| this.read_object(cursor)),
            Some(b'[') => self.deeper(|this| this.read_array(cursor)),
            _ => match cursor.word()? {
                "null" => Ok(JsValue::new_null(self.ctx.clone())),
                "true" => Ok(JsValue::new_bool(self.ctx.clone(), true)),
                "false" => Ok(JsValue::new_bool(self.ctx.clone(), false)),
                digits => match digits.parse::<f64>() {
                    Ok(number) if number.is_finite() => Ok(JsValue::new_number(self.ctx.clone(), number)),
                    Ok(_) => Err(DecodeError::new("a number out of range")),
                    Err(_) => Err(DecodeError::new("the value is not JSON")),
                },
            },
        }
    }

    /// Reads a list and passes on each item.
    fn read_items(
        &mut self,
        cursor: &mut Cursor<'_>,
        mut take: impl FnMut(u32, JsValue<'js>) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        cursor.expect(b'[')?;
        if cursor.eat(b']') {
            return Ok(());
        }
        for index in 0_u32.. {
            let item = self.read(cursor).map_err(|error| error.inside(&index.to_string()))?;
            take(index, item)?;
            if !cursor.eat(b',') {
                break;
            }
        }
        cursor.expect(b']')
    }

    fn read_array(&mut self, cursor: &mut Cursor<'_>) -> DecodeResult<'js> {
        let array = self.map_build_error(Array::new(self.ctx.clone()))?.into_object();
        let list = array.clone();
        let ctx = self.ctx;
        self.read_items(cursor, |index, item| {
            super::map_build_error(ctx, define::element(&list, index, &item))
        })?;
        Ok(array.into_value())
    }

    fn read_object(&mut self, cursor: &mut Cursor<'_>) -> DecodeResult<'js> {
        let start = cursor.at;
        cursor.expect(b'{')?;
        if let Some(tag) = self.sole_tag(cursor)? {
            let value = self.read_tagged(tag, cursor).map_err(|error| error.inside(tag))?;
            cursor.expect(b'}')?;
            return Ok(value);
        }
        cursor.at = start;
        match self.read_fields(cursor, true)? {
            Some(object) => Ok(object.into_value()),
            None => {
                cursor.at = start;
                self.read_function(cursor)
            }
        }
    }

    /// The tag that is the only key of an object, with the cursor at its payload.
    fn sole_tag(&mut self, cursor: &mut Cursor<'_>) -> Result<Option<&'static str>, DecodeError> {
        if cursor.peek() != Some(b'"') {
            return Ok(None);
        }
        let key = cursor.string()?;
        let Some(tag) = TAGS.into_iter().find(|tag| **tag == *key) else { return Ok(None) };
        cursor.expect(b':')?;
        let payload = cursor.at;
        cursor.skip_value()?;
        let is_sole = cursor.eat(b'}');
        cursor.at = payload;
        Ok(is_sole.then_some(tag))
    }

    /// Reads an object field by field; `None` when it turns out to be a function and `may_be_function`.
    fn read_fields(
        &mut self,
        cursor: &mut Cursor<'_>,
        may_be_function: bool,
    ) -> Result<Option<Object<'js>>, DecodeError> {
        let object = self.map_build_error(Object::new(self.ctx.clone()))?;
        cursor.expect(b'{')?;
        if cursor.eat(b'}') {
            return Ok(Some(object));
        }
        loop {
            let key = cursor.string()?;
            if may_be_function && key == FUNCTION_TAG {
                return Ok(None);
            }
            cursor.expect(b':')?;
            let field = self.read(cursor).map_err(|error| error.inside(&key))?;
            self.map_build_error(define::field(&object, &key, &field))?;
            if !cursor.eat(b',') {
                break;
            }
        }
        cursor.expect(b'}')?;
        Ok(Some(object))
    }

    fn read_function(&mut self, cursor: &mut Cursor<'_>) -> DecodeResult<'js> {
        let text = cursor.skip_value()?;
        if text.len() > FUNCTION_BYTES_MAX {
            return Err(DecodeError::new(format!(
                "expected a function of at most {FUNCTION_BYTES_MAX} bytes"
            )));
        }
        let fields = serde_json::from_str::<Map<String, Value>>(text);
        let fields = fields.map_err(|error| DecodeError::new(error.to_string()))?;
        self.function(fields.get(FUNCTION_TAG).unwrap_or(&Value::Null), &fields)
    }

    fn read_tagged(&mut self, tag: &str, cursor: &mut Cursor<'_>) -> DecodeResult<'js> {
        match (tag, cursor.peek()) {
            ("$map", Some(b'[')) => self.read_map(cursor),
            ("$set", Some(b'[')) => {
                let set = self.kit_call("makeSet", ())?;
                let (ctx, kit) = (self.ctx, self.kit);
                self.read_items(cursor, |_, member| {
                    super::kit_call(ctx, kit, "setPut", (set.clone(), member)).map(drop)
                })?;
                Ok(set)
            }
            ("$error", Some(b'{')) => self.read_error(cursor),
            ("$object", Some(b'{')) => {
                let object = self.read_fields(cursor, false)?;
                Ok(object.map_or_else(|| JsValue::new_null(self.ctx.clone()), Object::into_value))
            }
            (_, Some(b'"')) => {
                let text = cursor.string()?.into_owned();
                self.tagged(tag, &Value::String(text))
            }
            (_, Some(b't')) => {
                cursor.word()?;
                self.tagged(tag, &Value::Bool(true))
            }
            _ => Err(DecodeError::new(format!("`{tag}` has a payload of the wrong type"))),
        }
    }

    fn read_map(&mut self, cursor: &mut Cursor<'_>) -> DecodeResult<'js> {
        let map = self.kit_call("makeMap", ())?;
        cursor.expect(b'[')?;
        if cursor.eat(b']') {
            return Ok(map);
        }
        for index in 0_usize.. {
            let inside = |error: DecodeError| error.inside(&index.to_string());
            let pair = || inside(DecodeError::new("expected a pair of key and value"));
            if !cursor.eat(b'[') {
                return Err(pair());
            }
            if cursor.peek() == Some(b']') {
                return Err(pair());
            }
            let key = self.read(cursor).map_err(|error| inside(error.inside("0")))?;
            if !cursor.eat(b',') {
                return Err(pair());
            }
            let value = self.read(cursor).map_err(|error| inside(error.inside("1")))?;
            if !cursor.eat(b']') {
                return Err(pair());
            }
            self.kit_call("mapPut", (map.clone(), key, value))?;
            if !cursor.eat(b',') {
                break;
            }
        }
        cursor.expect(b']')?;
        Ok(map)
    }

    fn read_error(&mut self, cursor: &mut Cursor<'_>) -> DecodeResult<'js> {
        let (mut parts, mut cause) = (Map::new(), None);
        cursor.expect(b'{')?;
        let mut has_more = !cursor.eat(b'}');
        let is_empty = !has_more;
        while has_more {
            let key = cursor.string()?;
            cursor.expect(b':')?;
            match &*key {
                "cause" => cause = Some(self.read(cursor).map_err(|error| error.inside("cause"))?),
                "name" | "message" | "stack" => {
                    let text = cursor.skip_value()?;
                    let text = serde_json::from_str::<String>(text).map(Value::String);
                    parts.insert(key.into_owned(), text.unwrap_or(Value::Null));
                }
                _ => {
                    cursor.skip_value()?;
                }
            }
            has_more = cursor.eat(b',');
        }
        if !is_empty {
            cursor.expect(b'}')?;
        }
        self.make_error(&parts, cause)
    }
}

#[cfg(test)]
mod tests;
