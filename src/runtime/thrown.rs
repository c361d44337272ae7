//! What a script threw, as the error that its client gets.

use rquickjs::{Array, Ctx, String as JsString, Value as JsValue};
use serde_json::{Map, Value, json};

use super::guest::{Guest, kit_function};
use super::kept::{Kept, keep};
use super::source::Positions;
use super::value::Tree;
use crate::catalog::search::closest;
use crate::rpc::{ErrorObject, Kind};
use crate::session::RefHolder;

/// Causes of causes that are reported.
const CAUSES_MAX: usize = 8;

/// Longest text of an error: its header, name, message and stack are each cut there.
/// Enough for every error that a person reads. A script can throw a text of any length, and an answer that does not fit
/// into a message would close the connection.
pub(crate) const ERROR_TEXT_BYTES_MAX: usize = 64 << 10;

/// How many bindings with a close name are suggested for a missing one.
const SUGGESTIONS_MAX: usize = 3;

/// What the prelude says when something of a known size has no room (`room.js`).
const OUT_OF_ROOM: &str = "out of memory";

/// How QuickJS shows a frame of the prelude, whose bytecode has no file names.
const PRELUDE_FRAME: &str = "(<null>:";

/// The frames of one eval, to map positions in its stack traces back to the code as sent.
pub(crate) struct SourceMap<'a> {
    /// The name of the file.
    pub(crate) name: &'a str,
    /// How its positions were moved.
    pub(crate) positions: &'a Positions,
}

/// Describes what was thrown as the failure of an eval; `None` if the session's memory does not allow even that.
pub(crate) fn describe<'js>(
    ctx: &Ctx<'js>,
    guest: &Guest,
    thrown: JsValue<'js>,
    source: &SourceMap<'_>,
) -> Option<Kept<ErrorObject>> {
    let Ok(parts) = parts(ctx, guest, thrown) else {
        if ctx.has_exception() {
            ctx.catch();
        }
        return None;
    };
    let cause = cause(ctx, guest, &parts, 0);
    let texts = &parts.texts;
    let error = ErrorObject::new(parts.kind(), texts.header.clone());
    let mut error = error.with("stack", source.map(&texts.stack));
    if let Some(code) = parts.code {
        error = error.with("code", code);
    }
    if let Some(cause) = cause {
        error = error.with("cause", cause.take());
    }
    if let Some(missing) = parts.missing_name() {
        let suggestions = suggestions(guest, missing);
        if !suggestions.is_empty() {
            error = error.with("suggestions", suggestions);
        }
    }
    Some(keep(error))
}

/// Describes a `SyntaxError` that the compiler threw, whatever a script has made of that class; `None` for anything else,
/// and if the session's memory does not allow it.
pub(crate) fn describe_syntax_error<'js>(
    ctx: &Ctx<'js>,
    guest: &Guest,
    thrown: &JsValue<'js>,
    source: &SourceMap<'_>,
) -> Option<Kept<ErrorObject>> {
    let texts = || -> rquickjs::Result<Option<(Kept<String>, Kept<String>)>> {
        let parts = kit_function(&guest.kit(ctx)?, "syntaxErrorParts")?;
        let Some(parts) = parts.call::<_, Option<Array<'js>>>((thrown.clone(),))? else { return Ok(None) };
        Ok(Some((text_at(ctx, guest, &parts, 0)?, text_at(ctx, guest, &parts, 1)?)))
    };
    let (message, stack) = texts().unwrap_or_else(|_| {
        if ctx.has_exception() {
            ctx.catch();
        }
        None
    })?;
    let error = ErrorObject::new(Kind::SyntaxError, format!("SyntaxError: {}", *message));
    Some(keep(error.with("stack", source.map(&stack))))
}

#[derive(Default)]
struct Texts {
    header: String,
    name: String,
    message: String,
    stack: String,
}

struct Parts<'js> {
    texts: Kept<Texts>,
    cause: Option<JsValue<'js>>,
    /// The answer of a binding, when that is what was thrown.
    answer: Option<(i64, JsValue<'js>)>,
    /// The script's own `code` for its error, when that is a whole number.
    code: Option<i64>,
}

fn parts<'js>(ctx: &Ctx<'js>, guest: &Guest, thrown: JsValue<'js>) -> rquickjs::Result<Parts<'js>> {
    let parts: Array<'js> = kit_function(&guest.kit(ctx)?, "describeThrown")?.call((thrown,))?;
    let text = |index: usize| text_at(ctx, guest, &parts, index);
    let code: Option<f64> = parts.get(6).unwrap_or_default();
    let answer = whole(code).map(|code| -> rquickjs::Result<_> { Ok((code, parts.get(7)?)) }).transpose()?;
    let (header, name, message, stack) = (text(0)?, text(1)?, text(2)?, text(3)?);
    let cause = if parts.get(4)? { Some(parts.get(5)?) } else { None };
    let own_code = whole(parts.get(8).unwrap_or_default());
    let texts =
        Texts { header: header.take(), name: name.take(), message: message.take(), stack: stack.take() };
    Ok(Parts { texts: keep(texts), cause, answer, code: own_code })
}

/// One of the texts that the prelude found in an error; empty if it is not one.
fn text_at<'js>(
    ctx: &Ctx<'js>,
    guest: &Guest,
    parts: &Array<'js>,
    index: usize,
) -> rquickjs::Result<Kept<String>> {
    let value: JsValue<'js> = parts.get(index)?;
    value.as_string().map_or_else(|| Ok(keep(String::new())), |text| error_text(ctx, guest, text))
}

/// A text of an error, not too long; lone surrogates become U+FFFD.
fn error_text<'js>(ctx: &Ctx<'js>, guest: &Guest, text: &JsString<'js>) -> rquickjs::Result<Kept<String>> {
    let mut cut: Kept<String> = match text.to_string() {
        Ok(text) => keep(text),
        Err(_) => kit_function(&guest.kit(ctx)?, "wellFormed")?.call((text.clone(),))?,
    };
    if cut.len() > ERROR_TEXT_BYTES_MAX {
        let end = cut.floor_char_boundary(ERROR_TEXT_BYTES_MAX);
        cut.truncate(end);
        cut.push('…');
    }
    Ok(cut)
}

/// A JavaScript number, if it is an integer.
fn whole(number: Option<f64>) -> Option<i64> {
    let number = number.filter(|number| number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_991.0)?;
    #[allow(clippy::cast_possible_truncation)]
    Some(number as i64)
}

impl Parts<'_> {
    fn kind(&self) -> Kind {
        // Limits and policy of the server keep their kind though they reach the script through a binding's call.
        let ours = [
            Kind::TooManyCalls,
            Kind::TooDeep,
            Kind::TooManyRefs,
            Kind::ValidationLimit,
            Kind::PermissionDenied,
        ];
        if self.answer.is_some()
            && let Some(kind) = ours.into_iter().find(|kind| kind.name() == self.texts.name)
        {
            return kind;
        }
        match (self.texts.name.as_str(), self.texts.message.as_str()) {
            ("InternalError", "out of memory") | ("RangeError", OUT_OF_ROOM) => Kind::MemoryLimit,
            ("RangeError", "Maximum call stack size exceeded") | ("InternalError", "stack overflow") => {
                Kind::StackOverflow
            }
            _ => Kind::EvalError,
        }
    }

    /// `foo` of `ReferenceError: foo is not defined`.
    fn missing_name(&self) -> Option<&str> {
        let name = self.texts.message.strip_suffix(" is not defined")?;
        (self.texts.name == "ReferenceError").then(|| name.trim_matches('\''))
    }
}

fn cause<'js>(ctx: &Ctx<'js>, guest: &Guest, thrown: &Parts<'js>, depth: usize) -> Option<Kept<Value>> {
    let encode = |value: &JsValue<'js>| {
        let encoding = guest.encode::<Tree>(ctx, value, RefHolder::Client).ok()?;
        Some(keep(encoding.take().value))
    };
    if let Some((code, data)) = &thrown.answer {
        let data = encode(data);
        let mut cause = Map::new();
        cause.insert("code".to_owned(), json!(code));
        cause.insert("message".to_owned(), json!(thrown.texts.message));
        if let Some(data) = data.filter(|data| data.get("$undefined").is_none()) {
            cause.insert("data".to_owned(), data.take());
        }
        return Some(keep(Value::Object(cause)));
    }
    let inner = thrown.cause.clone()?;
    if !inner.is_error() {
        return encode(&inner);
    }
    let inner = parts(ctx, guest, inner).ok()?;
    if inner.answer.is_some() {
        return cause(ctx, guest, &inner, depth);
    }
    let deeper = if depth < CAUSES_MAX { cause(ctx, guest, &inner, depth + 1) } else { None };
    let Texts { name, message, stack, .. } = &*inner.texts;
    let mut fields = json!({"name": name, "message": message, "stack": stack});
    if let (Some(deeper), Value::Object(fields)) = (deeper, &mut fields) {
        fields.insert("cause".to_owned(), deeper.take());
    }
    Some(keep(fields))
}

fn suggestions(guest: &Guest, missing: &str) -> Vec<Value> {
    let names = guest.machine().visible_names();
    closest(names.iter().map(String::as_str), missing, SUGGESTIONS_MAX).into_iter().map(Value::from).collect()
}

impl SourceMap<'_> {
    /// A stack trace with the positions of the code as sent, and without the frames of the prelude.
    pub(crate) fn map(&self, stack: &str) -> String {
        let lines = stack.lines().filter(|line| !line.contains(PRELUDE_FRAME));
        if self.positions.is_identity() {
            return lines.collect::<Vec<_>>().join("\n");
        }
        lines.filter_map(|line| self.map_line(line)).collect::<Vec<_>>().join("\n")
    }

    /// The frame with its place in the code as sent; `None` for one of generated code.
    fn map_line(&self, line: &str) -> Option<String> {
        let Some((head, (row, column), rest)) = self.place_in(line) else {
            return Some(line.to_owned());
        };
        let (row, column) = self.positions.original(row, column)?;
        Some(format!("{head}{row}:{column}{rest}"))
    }

    /// Splits a frame of this file at its position.
    fn place_in<'l>(&self, line: &'l str) -> Option<(&'l str, (u32, u32), &'l str)> {
        let start = line.rfind(&format!("{}:", self.name))? + self.name.len() + 1;
        let (head, tail) = line.split_at(start);
        let end = tail.find(|c: char| !c.is_ascii_digit() && c != ':').unwrap_or(tail.len());
        let (row, column) = tail[..end].split_once(':')?;
        Some((head, (row.parse().ok()?, column.parse().ok()?), &tail[end..]))
    }
}
