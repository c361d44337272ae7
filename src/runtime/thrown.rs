//! What a script threw, as the error that its client gets.

use rquickjs::{Array, Ctx, String as JsString, Value as JsValue};
use serde_json::{Map, Value, json};

use super::guest::{Guest, kit_function};
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
) -> Option<ErrorObject> {
    let Ok(parts) = parts(ctx, guest, thrown) else {
        if ctx.has_exception() {
            ctx.catch();
        }
        return None;
    };
    let kind = parts.kind();
    let mut error = ErrorObject::new(kind, parts.header.clone());
    error = error.with("stack", source.map(&parts.stack));
    if let Some(code) = parts.code {
        error = error.with("code", code);
    }
    if let Some(cause) = cause(ctx, guest, &parts, 0) {
        error = error.with("cause", cause);
    }
    if let Some(missing) = parts.missing_name() {
        let suggestions = suggestions(guest, missing);
        if !suggestions.is_empty() {
            error = error.with("suggestions", suggestions);
        }
    }
    Some(error)
}

/// Describes a `SyntaxError` that the compiler threw, whatever a script has made of that class; `None` for anything else,
/// and if the session's memory does not allow it.
pub(crate) fn describe_syntax_error<'js>(
    ctx: &Ctx<'js>,
    guest: &Guest,
    thrown: &JsValue<'js>,
    source: &SourceMap<'_>,
) -> Option<ErrorObject> {
    let texts = || -> rquickjs::Result<Option<(String, String)>> {
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
    let error = ErrorObject::new(Kind::SyntaxError, format!("SyntaxError: {message}"));
    Some(error.with("stack", source.map(&stack)))
}

struct Parts<'js> {
    header: String,
    name: String,
    message: String,
    stack: String,
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
    Ok(Parts {
        header: text(0)?,
        name: text(1)?,
        message: text(2)?,
        stack: text(3)?,
        cause: if parts.get(4)? { Some(parts.get(5)?) } else { None },
        answer,
        code: whole(parts.get(8).unwrap_or_default()),
    })
}

/// One of the texts that the prelude found in an error; empty if it is not one.
fn text_at<'js>(ctx: &Ctx<'js>, guest: &Guest, parts: &Array<'js>, index: usize) -> rquickjs::Result<String> {
    let value: JsValue<'js> = parts.get(index)?;
    value.as_string().map_or(Ok(String::new()), |text| error_text(ctx, guest, text))
}

/// A text of an error, not too long; lone surrogates become U+FFFD.
fn error_text<'js>(ctx: &Ctx<'js>, guest: &Guest, text: &JsString<'js>) -> rquickjs::Result<String> {
    let mut cut = match text.to_string() {
        Ok(text) => text,
        Err(_) => kit_function(&guest.kit(ctx)?, "wellFormed")?.call((text.clone(),))?,
    };
    if cut.len() > ERROR_TEXT_BYTES_MAX {
        cut.truncate(cut.floor_char_boundary(ERROR_TEXT_BYTES_MAX));
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
            && let Some(kind) = ours.into_iter().find(|kind| kind.name() == self.name)
        {
            return kind;
        }
        match (self.name.as_str(), self.message.as_str()) {
            ("InternalError", "out of memory") => Kind::MemoryLimit,
            ("RangeError", "Maximum call stack size exceeded") | ("InternalError", "stack overflow") => {
                Kind::StackOverflow
            }
            _ => Kind::EvalError,
        }
    }

    /// `foo` of `ReferenceError: foo is not defined`.
    fn missing_name(&self) -> Option<&str> {
        let name = self.message.strip_suffix(" is not defined")?;
        (self.name == "ReferenceError").then(|| name.trim_matches('\''))
    }
}

fn cause<'js>(ctx: &Ctx<'js>, guest: &Guest, thrown: &Parts<'js>, depth: usize) -> Option<Value> {
    if let Some((code, data)) = &thrown.answer {
        let data = guest.encode::<Tree>(ctx, data, RefHolder::Client, &mut Vec::new()).ok();
        let mut cause = Map::new();
        cause.insert("code".to_owned(), json!(code));
        cause.insert("message".to_owned(), json!(thrown.message));
        if let Some(data) = data.filter(|data| data.get("$undefined").is_none()) {
            cause.insert("data".to_owned(), data);
        }
        return Some(Value::Object(cause));
    }
    let inner = thrown.cause.clone()?;
    if !inner.is_error() {
        return guest.encode::<Tree>(ctx, &inner, RefHolder::Client, &mut Vec::new()).ok();
    }
    let inner = parts(ctx, guest, inner).ok()?;
    let mut fields = json!({"name": inner.name, "message": inner.message, "stack": inner.stack});
    if inner.answer.is_some() {
        return cause(ctx, guest, &inner, depth);
    }
    if depth < CAUSES_MAX
        && let Some(deeper) = cause(ctx, guest, &inner, depth + 1)
        && let Value::Object(map) = &mut fields
    {
        map.insert("cause".to_owned(), deeper);
    }
    Some(fields)
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
