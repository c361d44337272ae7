//! Prepares the code of an eval for the engine, which runs it as a sloppy global script with top-level `await`.
//!
//! Three things stand between what is sent and what such a script can do: top-level declarations must persist and
//! may be declared again, `fresh` ones must not persist, and TypeScript must lose its types. All are done by edits
//! of the text (`edit`) found in its syntax tree (`parse`); lines never move, and `Positions` maps columns back.
//! Code with nothing to rewrite is not parsed (`scan`), code that is data alone is not even compiled (`data`), and no
//! code is parsed that could overflow the stack (`nesting`). Code that is neither JavaScript nor TypeScript is left as it is: the engine reports it best.

mod blame;
mod classes;
mod consts;
mod data;
mod declarations;
mod edit;
mod enums;
mod explain;
mod fresh;
mod lexis;
mod nesting;
mod parse;
mod refuse;
mod scan;
mod tokens;
mod trivia;
mod types;
mod whole;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use oxc_allocator::Allocator;

pub(crate) use crate::session::Positions;
use crate::session::positions;
pub(crate) use blame::{Complaint, Suspect, awaits, blame};
pub(crate) use data::json_of;
pub(crate) use explain::explain;

use edit::Edits;
use nesting::Nesting;
use parse::{Language, ParsedCode};

/// Longest code that is parsed.
/// The longest frame there is; a longer code can only come from inside the server, and is refused.
pub(crate) const CODE_BYTES_MAX: usize = 16 << 20;

/// Most declarations in one code.
/// QuickJS looks each up among all before it without asking whether to go on: twice as many take four times as long.
pub(crate) const DECLARATIONS_MAX: usize = 20_000;

/// How an eval wants its code to be run.
pub(crate) struct Options<'a> {
    /// Nothing the code declares persists.
    pub(crate) fresh: bool,
    /// Whether a global of that name is a binding.
    pub(crate) is_binding: &'a dyn Fn(&str) -> bool,
}

/// Code for the engine.
#[derive(Debug)]
pub(crate) struct PreparedCode<'a> {
    /// Borrowed when it is the code as sent.
    pub(crate) code: Cow<'a, str>,
    /// From positions in `code` to positions in the code as sent.
    pub(crate) positions: Positions,
}

/// A `SyntaxError` found before the engine saw the code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct SourceError {
    /// What is wrong.
    pub(crate) message: String,
    /// Line in the code as sent, from 1.
    pub(crate) line: u32,
    /// Column in that line, from 1.
    pub(crate) column: u32,
}

impl SourceError {
    /// The offset is one of the wrapped text.
    fn at(parsed: &ParsedCode, offset: u32, message: String) -> Self {
        let code = parsed.text.get(ParsedCode::BASE..).unwrap_or_default();
        Self::in_code(code, (offset as usize).saturating_sub(ParsedCode::BASE), message)
    }

    fn in_code(code: &str, offset: usize, message: String) -> Self {
        let (line, column) = positions::locate(code, offset);
        Self { message, line, column }
    }
}

/// Prepares a code before the engine sees it.
pub(crate) fn prepare<'a>(code: &'a str, options: &Options) -> Result<PreparedCode<'a>, SourceError> {
    let unchanged = || PreparedCode { code: Cow::Borrowed(code), positions: Positions::default() };
    if scan::declaration_words(code) > DECLARATIONS_MAX {
        return Err(SourceError::in_code(code, 0, "the code has too many declarations".to_owned()));
    }
    if let Some((start, end)) = whole::object_literal(code) {
        return Ok(parenthesize(code, start, end));
    }
    if !options.fresh && !scan::may_declare(code, options.is_binding) {
        return Ok(unchanged());
    }
    let scope = if options.fresh || scan::may_replace_binding(code, options.is_binding) {
        Scope::All
    } else {
        Scope::TopLevel
    };
    Ok(transform(code, options, scope)?.unwrap_or_else(unchanged))
}

/// Prepares a code that `prepare` left as it was (`Cow::Borrowed`) and the engine then refused with a `SyntaxError`.
/// `None`: it is not TypeScript either, and the engine's error stands.
pub(crate) fn rescue<'a>(code: &'a str, options: &Options) -> Result<Option<PreparedCode<'a>>, SourceError> {
    Ok(transform(code, options, Scope::All)?.filter(|prepared| matches!(prepared.code, Cow::Owned(_))))
}

/// The names that a code declares at its top level; none if it does not parse.
pub(crate) fn declared_names(code: &str) -> Vec<String> {
    if code.len() > CODE_BYTES_MAX || !matches!(nesting::measure(code), Nesting::Bounded) {
        return Vec::new();
    }
    let arena = Allocator::default();
    parse::parse(&arena, code).map(|parsed| declarations::names(&parsed)).unwrap_or_default()
}

/// What of a code may have to be rewritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    All,
    /// Only what it declares outside of all brackets. If it is TypeScript, the engine will refuse it, and it comes back.
    TopLevel,
}

/// `None` when the code does not parse, or has nothing in that scope.
fn transform<'a>(
    code: &'a str,
    options: &Options,
    scope: Scope,
) -> Result<Option<PreparedCode<'a>>, SourceError> {
    if code.len() > CODE_BYTES_MAX {
        return Err(SourceError::in_code(code, 0, "code is too long".to_owned()));
    }
    let (nesting, is_scoped) = nesting::measure_scoped(code);
    match nesting {
        Nesting::Bounded if is_scoped && scope == Scope::TopLevel => return Ok(None),
        Nesting::Bounded => {}
        Nesting::Broken => return Ok(None),
        Nesting::TooDeep(at) => {
            return Err(SourceError::in_code(code, at, "code is nested too deeply".to_owned()));
        }
    }
    let arena = Allocator::default();
    if let Some(erased) = whole::without_type_imports(&arena, code) {
        let prepared = transform(&erased, options, Scope::All)?;
        return Ok(prepared.map(|PreparedCode { code, positions }| PreparedCode {
            code: Cow::Owned(code.into_owned()),
            positions,
        }));
    }
    let Some(parsed) = parse::parse(&arena, code) else {
        return refuse_module(&arena, code).map_or(Ok(None), Err);
    };
    if (parsed.language == Language::TypeScript || may_be_refused(code))
        && let Some((message, offset)) = refuse::refused(parsed.program)
    {
        return Err(SourceError::at(&parsed, offset, message.to_owned()));
    }
    edit(code, &parsed, options)
}

fn edit<'a>(
    code: &'a str,
    parsed: &ParsedCode,
    options: &Options,
) -> Result<Option<PreparedCode<'a>>, SourceError> {
    let mut edits = Edits::new(ParsedCode::BASE);
    if parsed.language == Language::TypeScript {
        types::erase(parsed, &mut edits)?;
    }
    let returns =
        if code.contains("return") { whole::top_level_returns(&parsed.body.statements) } else { Vec::new() };
    if options.fresh {
        // First, because the wrapper closes behind a `return` at the end.
        whole::return_lists(&returns, &mut edits);
        fresh::wrap(parsed, &mut edits);
    } else {
        if !returns.is_empty() {
            whole::leave_block(parsed, &returns, &mut edits);
        }
        declarations::check(parsed)?;
        consts::guard(parsed, &mut edits);
        declarations::persist(parsed, options, &mut edits);
    }
    if edits.is_empty() {
        return Ok(Some(PreparedCode { code: Cow::Borrowed(code), positions: Positions::default() }));
    }
    let (edited, positions) = edits.apply(code);
    Ok(Some(PreparedCode { code: Cow::Owned(edited), positions }))
}

/// An object literal as an expression.
fn parenthesize(code: &str, start: usize, end: usize) -> PreparedCode<'_> {
    let mut edits = Edits::new(0);
    let offset = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    edits.insert(offset(start), "(");
    edits.insert(offset(end), ")");
    let (edited, positions) = edits.apply(code);
    PreparedCode { code: Cow::Owned(edited), positions }
}

/// Whether a code that parses as JavaScript may hold a construct that is refused.
fn may_be_refused(code: &str) -> bool {
    code.contains('@') || code.contains("import") || code.contains("export")
}

/// Names the construct, if a code does not parse because it has one that only a module or JSX allows.
fn refuse_module<'a>(arena: &'a Allocator, code: &'a str) -> Option<SourceError> {
    // Quotes in JSX text are not strings, so only the count of all tokens bounds its nesting.
    let readings: &[bool] = if nesting::is_small(code) { &[false, true] } else { &[false] };
    readings.iter().find_map(|jsx| {
        let (message, offset) = refuse::refused(parse::parse_module(arena, code, *jsx)?)?;
        Some(SourceError::in_code(code, offset as usize, message.to_owned()))
    })
}
