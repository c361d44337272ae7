//! What a script threw, as the error that its client gets.

use std::sync::Arc;

use rquickjs::{Array, Ctx, String as JsString, Value as JsValue};
use serde_json::{Map, Value, json};

use super::diagnosis::{self, Diagnosis, EngineError};
use super::guest::{Guest, kit_function};
use super::source::{self, Complaint, Positions};
use super::value::Tree;
use crate::rpc::{ErrorObject, Kind};
use crate::session::RefHolder;
use crate::session::tables::EvalSource;

/// Causes of causes that are reported.
const CAUSES_MAX: usize = 8;

/// Longest text of an error: its header, name, message and stack are each cut there.
/// Enough for every error that a person reads. A script can throw a text of any length, and an answer that does not fit
/// into a message would close the connection.
pub(crate) const ERROR_TEXT_BYTES_MAX: usize = 64 << 10;

/// Errors of an `AggregateError` that are reported.
const ERRORS_MAX: usize = 16;

/// Longest JSON of an error's own properties; what is more is left out.
const PROPERTIES_BYTES_MAX: usize = 16 << 10;

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
    let eval = running_source(guest, source.name);
    let mut stack = parts.mapped_stack(guest);
    let Diagnosis { message, suggestions, place } = match &eval {
        Some(eval) if parts.answer.is_none() && guest.meter.stopped().is_none() => {
            let engine_error = EngineError { name: &parts.name, message: &parts.message, stack: &stack };
            diagnosis::diagnose(ctx, guest, &engine_error, eval).unwrap_or_default()
        }
        Some(_) | None => Diagnosis::default(),
    };
    if let (Some(place), Some(eval)) = (place, &eval) {
        stack = move_place(&stack, &eval.name, place);
    }
    if let (true, Some(eval)) = (stack.is_empty() && !parts.is_error, &eval) {
        stack = place_of_throw(eval, &parts.header).unwrap_or_default();
    }
    let header = message.map_or_else(|| parts.header.clone(), |message| format!("{}: {message}", parts.name));
    let mut error = ErrorObject::new(parts.kind(), header).with("stack", stack);
    if let Some(code) = parts.code {
        error = error.with("code", code);
    }
    if let Some(cause) = cause(ctx, guest, &parts, 0) {
        error = error.with("cause", cause);
    }
    if let Some(errors) = errors(ctx, guest, &parts) {
        error = error.with("errors", errors);
    }
    if let Some(properties) = properties(ctx, guest, &parts) {
        error = error.with("properties", properties);
    }
    if !suggestions.is_empty() {
        error = error.with("suggestions", suggestions);
    }
    Some(error)
}

/// The code of the running eval, if what failed is part of it.
fn running_source(guest: &Guest, name: &str) -> Option<Arc<EvalSource>> {
    let machine = guest.machine();
    let running = machine.state.evals.running.as_ref()?;
    (running.source.name == name).then(|| Arc::clone(&running.source))
}

/// The stack with the place of its innermost frame in that file moved to where the expression begins.
fn move_place(stack: &str, name: &str, (line, column): (u32, u32)) -> String {
    let mut is_moved = false;
    let moved = stack.lines().map(|frame| {
        let start = frame.rfind(&format!("{name}:")).filter(|_| !is_moved).map(|at| at + name.len() + 1);
        let Some((head, tail)) = start.and_then(|start| frame.split_at_checked(start)) else {
            return frame.to_owned();
        };
        is_moved = true;
        let rest = tail.trim_start_matches(|char: char| char.is_ascii_digit() || char == ':');
        format!("{head}{line}:{column}{rest}")
    });
    moved.collect::<Vec<_>>().join("\n")
}

/// Something that is not an error has no place. The code shows it, if only one statement can have thrown it.
fn place_of_throw(eval: &EvalSource, header: &str) -> Option<String> {
    let mut thrown = source::blame(&eval.code, Complaint::Thrown, None);
    if thrown.len() > 1 {
        thrown.retain(|suspect| suspect.text.contains(header));
    }
    let [suspect] = thrown.as_slice() else { return None };
    Some(format!("    at {}:{}:{}", eval.name, suspect.place.0, suspect.place.1))
}

/// The stack of an error that ended a turn, with the places of the code as sent.
pub(crate) fn stack_of<'js>(ctx: &Ctx<'js>, guest: &Guest, thrown: JsValue<'js>) -> Option<String> {
    let parts = parts(ctx, guest, thrown).ok();
    if parts.is_none() && ctx.has_exception() {
        ctx.catch();
    }
    parts.map(|parts| parts.mapped_stack(guest)).filter(|stack| !stack.is_empty())
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
    /// Whether it is an error, and not another value.
    is_error: bool,
    header: String,
    name: String,
    message: String,
    stack: String,
    cause: Option<JsValue<'js>>,
    /// The answer of a binding, when that is what was thrown.
    answer: Option<(i64, JsValue<'js>)>,
    /// The script's own `code` for its error, when that is a whole number.
    code: Option<i64>,
    /// The list of an `AggregateError`.
    errors: Option<Array<'js>>,
    /// Data that the script has put on its error.
    properties: Option<JsValue<'js>>,
}

fn parts<'js>(ctx: &Ctx<'js>, guest: &Guest, thrown: JsValue<'js>) -> rquickjs::Result<Parts<'js>> {
    let parts: Array<'js> = kit_function(&guest.kit(ctx)?, "describeThrown")?.call((thrown,))?;
    let text = |index: usize| text_at(ctx, guest, &parts, index);
    let code: Option<f64> = parts.get(6).unwrap_or_default();
    let answer = whole(code).map(|code| -> rquickjs::Result<_> { Ok((code, parts.get(7)?)) }).transpose()?;
    let properties: JsValue<'js> = parts.get(10)?;
    Ok(Parts {
        is_error: parts.len() > 5,
        header: text(0)?,
        name: text(1)?,
        message: text(2)?,
        stack: text(3)?,
        cause: if parts.get(4)? { Some(parts.get(5)?) } else { None },
        answer,
        code: whole(parts.get(8).unwrap_or_default()),
        errors: parts.get(9).unwrap_or_default(),
        properties: (!properties.is_undefined()).then_some(properties),
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

    /// The frames with the places of the code as sent, without what stands before them.
    fn mapped_stack(&self, guest: &Guest) -> String {
        let frames = self.stack.strip_prefix(&self.header).unwrap_or(&self.stack);
        guest.machine().state.source_maps.map(frames.trim_start_matches('\n'))
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
    let mut fields =
        json!({"name": inner.name, "message": inner.message, "stack": inner.mapped_stack(guest)});
    if let (Some(errors), Value::Object(map)) = (errors(ctx, guest, &inner), &mut fields) {
        map.insert("errors".to_owned(), errors);
    }
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

/// The errors of an `AggregateError`.
fn errors<'js>(ctx: &Ctx<'js>, guest: &Guest, thrown: &Parts<'js>) -> Option<Value> {
    let list = thrown.errors.as_ref()?;
    let mut errors = Vec::new();
    for index in 0..list.len().min(ERRORS_MAX) {
        let Ok(item) = list.get::<JsValue<'js>>(index) else { break };
        errors.push(if item.is_error() {
            let inner = parts(ctx, guest, item).ok()?;
            json!({"name": inner.name, "message": inner.message, "stack": inner.mapped_stack(guest)})
        } else {
            encode_data(ctx, guest, &item)?
        });
    }
    Some(Value::Array(errors))
}

fn properties<'js>(ctx: &Ctx<'js>, guest: &Guest, thrown: &Parts<'js>) -> Option<Value> {
    let properties = encode_data(ctx, guest, thrown.properties.as_ref()?)?;
    (properties.to_string().len() <= PROPERTIES_BYTES_MAX).then_some(properties)
}

/// A value of the script that goes along with an error; none if there are functions in it, which no client would release.
fn encode_data<'js>(ctx: &Ctx<'js>, guest: &Guest, value: &JsValue<'js>) -> Option<Value> {
    let mut exported = Vec::new();
    let data = guest.encode::<Tree>(ctx, value, RefHolder::Client, &mut exported).ok();
    if exported.is_empty() {
        return data;
    }
    guest.take_back(RefHolder::Client, &mut exported);
    None
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
