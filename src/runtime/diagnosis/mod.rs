//! Better messages for the errors of the engine, found after they happened.
//!
//! QuickJS says `not a function` and a place. The code is parsed again, the expression at that place is named, and the
//! values that its names have are looked at, without running anything of the script.

mod hints;
mod words;

use rquickjs::Ctx;

use super::guest::{Guest, kit_function};
use super::host;
use super::source::{Complaint, Suspect, blame};
use crate::catalog::search::similar;
use crate::session::tables::EvalSource;

/// How many names are suggested for a missing one.
const SUGGESTIONS_MAX: usize = 3;

/// Members of an object that a message lists.
const MEMBERS_LISTED_MAX: usize = 12;

/// An error of the engine.
pub(crate) struct EngineError<'a> {
    pub(crate) name: &'a str,
    pub(crate) message: &'a str,
    /// With places of the code as sent.
    pub(crate) stack: &'a str,
}

/// What could be found out about it.
#[derive(Debug, Default)]
pub(crate) struct Diagnosis {
    /// Instead of the engine's message.
    pub(crate) message: Option<String>,
    pub(crate) suggestions: Vec<String>,
    /// Where the expression begins, both from 1.
    pub(crate) place: Option<(u32, u32)>,
}

/// What a path of names leads to.
#[derive(Debug, Clone)]
struct Look {
    /// How many of the names exist.
    steps: usize,
    /// The kind of the last value that exists.
    kind: String,
    members: Vec<String>,
}

struct Diagnostician<'a, 'js> {
    ctx: &'a Ctx<'js>,
    guest: &'a Guest,
    source: &'a EvalSource,
    error: &'a EngineError<'a>,
}

/// Looks into an error that a script threw and did not catch; `None` if there is nothing to add.
pub(crate) fn diagnose(
    ctx: &Ctx<'_>,
    guest: &Guest,
    error: &EngineError<'_>,
    source: &EvalSource,
) -> Option<Diagnosis> {
    if error.message.starts_with("could not load module ") {
        let message = format!("{}: there are no modules to import, use the bindings", error.message);
        return Some(Diagnosis { message: Some(message), ..Diagnosis::default() });
    }
    let complaint = complaint(error)?;
    let diagnostician = Diagnostician { ctx, guest, source, error };
    let (is_native, place) = innermost_place(error.stack, &source.name);
    if let Complaint::Missing(name) = complaint {
        return Some(diagnostician.missing(name, place));
    }
    let suspects = blame(&source.code, complaint, Some(place?));
    match complaint {
        Complaint::NotAFunction if is_native => diagnostician.callback(&suspects),
        Complaint::NotAFunction => diagnostician.not_a_function(&suspects),
        Complaint::Property(name) => diagnostician.property(name, &suspects),
        Complaint::NotIterable => diagnostician.not_iterable(&suspects),
        Complaint::NotAnObject => diagnostician.not_an_object(&suspects, is_native),
        Complaint::Missing(_) | Complaint::Thrown | Complaint::Await => None,
    }
}

fn complaint<'a>(error: &EngineError<'a>) -> Option<Complaint<'a>> {
    let message = error.message;
    match error.name {
        "TypeError" if message == "not a function" || message.ends_with("not a constructor") => {
            Some(Complaint::NotAFunction)
        }
        "TypeError" if message.ends_with("is not iterable") => Some(Complaint::NotIterable),
        "TypeError" if message == "Cannot convert undefined or null to object" => {
            Some(Complaint::NotAnObject)
        }
        "TypeError" => {
            let rest = message
                .strip_prefix("cannot read property '")
                .or_else(|| message.strip_prefix("cannot set property '"))?;
            let name = rest.strip_suffix("' of undefined").or_else(|| rest.strip_suffix("' of null"))?;
            Some(Complaint::Property(name))
        }
        "ReferenceError" => {
            Some(Complaint::Missing(message.strip_suffix(" is not defined")?.trim_matches('\'')))
        }
        _ => None,
    }
}

/// The place of the innermost frame of this code, unless code of an earlier eval is inside of it, and whether a built-in
/// function is.
fn innermost_place(stack: &str, name: &str) -> (bool, Option<(u32, u32)>) {
    let mut is_native = false;
    for frame in stack.lines().filter(|line| line.trim_start().starts_with("at ")) {
        if frame.ends_with("(native)") {
            is_native = true;
            continue;
        }
        return (is_native, place_of(frame, name));
    }
    (is_native, None)
}

fn place_of(frame: &str, name: &str) -> Option<(u32, u32)> {
    let mut parts = frame.trim_end_matches(')').rsplitn(3, ':');
    let (column, line) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    parts.next()?.ends_with(name).then_some((line, column))
}

impl Diagnostician<'_, '_> {
    /// What the names of a path lead to; `None` where that cannot be known.
    fn look(&self, path: &[String]) -> Option<Look> {
        let looked = self.try_look(path);
        if looked.is_err() && self.ctx.has_exception() {
            self.ctx.catch();
        }
        looked.ok().filter(|look| look.kind != "unknown")
    }

    fn try_look(&self, path: &[String]) -> rquickjs::Result<Look> {
        let is_binding = path.first().is_some_and(|first| self.guest.machine().is_binding(first));
        let names = host::new_list(self.ctx)?;
        for (index, name) in path.iter().enumerate() {
            names.set(index, name.as_str())?;
        }
        let look = kit_function(&self.guest.kit(self.ctx)?, "lookAt")?;
        let found: rquickjs::Array<'_> = look.call((names, is_binding))?;
        let texts: Vec<String> = (0..found.len()).map(|index| found.get(index)).collect::<Result<_, _>>()?;
        let mut texts = texts.into_iter();
        let steps = texts.next().and_then(|steps| steps.parse().ok()).unwrap_or_default();
        Ok(Look { steps, kind: texts.next().unwrap_or_default(), members: texts.collect() })
    }

    fn is_binding_call(&self, suspect: &Suspect) -> Option<String> {
        let (text, path) = suspect.call.as_ref()?;
        self.guest.machine().is_binding(path.first()?).then(|| text.clone())
    }

    fn not_a_function(&self, suspects: &[Suspect]) -> Option<Diagnosis> {
        let mut unknown = None;
        for suspect in suspects {
            let length = suspect.path.len();
            let look = if length == 0 { None } else { self.look(&suspect.path) };
            match look {
                Some(look) if look.steps == length && look.kind == "function" => {}
                Some(look) if look.steps == length => return Some(self.wrong_value(suspect, &look.kind)),
                Some(look) if look.steps + 1 == length && length > 1 => {
                    return Some(self.missing_member(suspect, &look));
                }
                Some(_) | None => unknown = unknown.or(Some(suspect)),
            }
        }
        unknown.map(|suspect| self.unknown_callee(suspect))
    }

    fn wrong_value(&self, suspect: &Suspect, kind: &str) -> Diagnosis {
        let message = format!("{} is not a function: it is {}", suspect.text, words::with_article(kind));
        Diagnosis { message: Some(message), place: Some(suspect.place), ..Diagnosis::default() }
    }

    fn missing_member(&self, suspect: &Suspect, parent: &Look) -> Diagnosis {
        let (owner, name) = split(&suspect.path);
        let text = &suspect.text;
        let suggestions = suggest_members(&owner, &name, &parent.members);
        let message = match parent.kind.as_str() {
            "promise" => {
                format!(
                    "{text} is not a function: {owner} is a Promise, await it first: (await {owner}).{name}"
                )
            }
            "object" | "function" => match list_members(&parent.members) {
                Some(members) => format!("{text} is not a function; {owner} has {members}"),
                None => format!("{text} is not a function: {owner} has no member of that name"),
            },
            kind => format!("{text} is not a function: {owner} is {}", words::with_article(kind)),
        };
        Diagnosis { message: Some(message), suggestions, place: Some(suspect.place) }
    }

    /// A callee whose value cannot be known: a local variable, or the result of something.
    fn unknown_callee(&self, suspect: &Suspect) -> Diagnosis {
        let text = &suspect.text;
        let (owner, name) = text.rsplit_once('.').unwrap_or(("", text));
        let mut suggestions = Vec::new();
        let message = if let Some(call) = self.is_binding_call(suspect) {
            format!(
                "{text} is not a function: {call} returns a Promise, await it first: (await {call}).{name}"
            )
        } else if owner.is_empty() {
            format!("{text} is not a function")
        } else if let Some(kind) = words::owner_of_method(name) {
            format!("{text} is not a function: {owner} is not {kind}")
        } else {
            suggestions = suggest_members(owner, name, &words::builtin_methods());
            format!("{text} is not a function")
        };
        Diagnosis { message: Some(message), suggestions, place: Some(suspect.place) }
    }

    /// A built-in function was given something else than a function.
    fn callback(&self, suspects: &[Suspect]) -> Option<Diagnosis> {
        let called = suspects.first()?;
        let message = format!("{}: what it was given is not a function", called.text);
        Some(Diagnosis { message: Some(message), place: Some(called.place), ..Diagnosis::default() })
    }

    fn property(&self, name: &str, suspects: &[Suspect]) -> Option<Diagnosis> {
        let (mut chosen, mut parent) = (None, None);
        for suspect in suspects {
            let length = suspect.path.len();
            match if length == 0 { None } else { self.look(&suspect.path) } {
                Some(look) if look.steps == length && !matches!(look.kind.as_str(), "undefined" | "null") => {
                }
                Some(look) if look.steps + 1 == length && length > 1 => {
                    (chosen, parent) = (Some(suspect), Some(look));
                    break;
                }
                Some(look) if look.steps == length => {
                    chosen = Some(suspect);
                    break;
                }
                Some(_) | None => chosen = chosen.or(Some(suspect)),
            }
        }
        let suspect = chosen?;
        let what = if self.error.message.ends_with("of null") { "null" } else { "undefined" };
        let mut message = match name {
            "Symbol.iterator" => format!("{} is not iterable: it is {what}", suspect.text),
            _ if suspect.text == what => self.error.message.to_owned(),
            _ => format!("{}: {} is {what}", self.error.message, suspect.text),
        };
        let mut suggestions = Vec::new();
        if let Some(call) = self.is_binding_call(suspect) {
            message = format!("{message}, because {call} returns a Promise: await it first: (await {call})");
        } else if let Some(parent) = parent {
            let (owner, name) = split(&suspect.path);
            suggestions = suggest_members(&owner, &name, &parent.members);
            message = match parent.kind.as_str() {
                "promise" => format!("{message}, because {owner} is a Promise: await it first"),
                "object" => match list_members(&parent.members) {
                    Some(members) => format!("{message}; {owner} has {members}"),
                    None => message,
                },
                _ => message,
            };
        }
        Some(Diagnosis { message: Some(message), suggestions, place: Some(suspect.place) })
    }

    fn not_iterable(&self, suspects: &[Suspect]) -> Option<Diagnosis> {
        let suspect = suspects.first()?;
        let text = &suspect.text;
        let look = if suspect.path.is_empty() { None } else { self.look(&suspect.path) };
        let kind = look.filter(|look| look.steps == suspect.path.len()).map(|look| look.kind);
        let message = match (kind.as_deref(), self.is_binding_call(suspect)) {
            (_, Some(_)) | (Some("promise"), _) => {
                format!("{text} is not iterable: it is a Promise, await it first")
            }
            (Some("object"), _) => {
                format!("{text} is not iterable: it is an object, use Object.entries({text})")
            }
            (Some(kind), _) => format!("{text} is not iterable: it is {}", words::with_article(kind)),
            (None, _) => format!("{text} is not iterable"),
        };
        Some(Diagnosis { message: Some(message), place: Some(suspect.place), ..Diagnosis::default() })
    }

    fn not_an_object(&self, suspects: &[Suspect], is_native: bool) -> Option<Diagnosis> {
        let suspect = suspects.first()?;
        let text = &suspect.text;
        let message = if is_native {
            format!("{}: {text} is undefined or null", self.error.message)
        } else {
            format!("cannot destructure {text}: it is undefined or null")
        };
        Some(Diagnosis { message: Some(message), place: Some(suspect.place), ..Diagnosis::default() })
    }

    /// A name that does not exist: what is there instead, and names like it.
    fn missing(&self, name: &str, place: Option<(u32, u32)>) -> Diagnosis {
        let names = self.guest.machine().visible_names();
        let hint = hints::of(name).map(|hint| format!("{} is not defined: {hint}", name));
        let suspects = place.map(|place| blame(&self.source.code, Complaint::Missing(name), Some(place)));
        let chain = suspects.unwrap_or_default().into_iter().map(|suspect| suspect.path).max_by_key(Vec::len);
        let mut suggestions = similar(&names, name, SUGGESTIONS_MAX);
        if let Some(chain) = chain.filter(|chain| chain.len() > 1) {
            for name in similar(&names, &chain.join("."), SUGGESTIONS_MAX) {
                if !suggestions.contains(&name) {
                    suggestions.push(name);
                }
            }
        }
        if suggestions.is_empty() && hint.is_none() {
            suggestions = similar(&self.global_names(&names), name, SUGGESTIONS_MAX);
        }
        suggestions.truncate(SUGGESTIONS_MAX);
        Diagnosis { message: hint, suggestions, place: None }
    }

    /// The namespaces of bindings, and the global variables.
    fn global_names(&self, bindings: &[String]) -> Vec<String> {
        let mut names: Vec<String> = bindings
            .iter()
            .filter_map(|name| name.split_once('.'))
            .map(|(first, _)| first.to_owned())
            .collect();
        names.dedup();
        let globals = || -> rquickjs::Result<Vec<String>> {
            let list = kit_function(&self.guest.kit(self.ctx)?, "globalNames")?;
            let found: rquickjs::Array<'_> = list.call(())?;
            (0..found.len()).map(|index| found.get(index)).collect()
        };
        match globals() {
            Ok(globals) => names.extend(globals),
            Err(_) if self.ctx.has_exception() => drop(self.ctx.catch()),
            Err(_) => {}
        }
        names
    }
}

/// The owner and the name of a member.
fn split(path: &[String]) -> (String, String) {
    match path.split_last() {
        Some((name, owner)) => (owner.join("."), name.clone()),
        None => (String::new(), String::new()),
    }
}

fn suggest_members(owner: &str, name: &str, members: &[String]) -> Vec<String> {
    similar(members, name, SUGGESTIONS_MAX).into_iter().map(|member| format!("{owner}.{member}")).collect()
}

fn list_members(members: &[String]) -> Option<String> {
    let shown: Vec<&str> = members.iter().take(MEMBERS_LISTED_MAX).map(String::as_str).collect();
    let more = if members.len() > MEMBERS_LISTED_MAX { ", …" } else { "" };
    (!shown.is_empty()).then(|| format!("{}{more}", shown.join(", ")))
}
