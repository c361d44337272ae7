//! `bindings.types` and `bindings.search`: what is said about all bindings together.
//!
//! A server may have thousands of bindings, so both work in slices: after each, the shard serves its other sessions. The
//! time is charged to the principal. Texts of a session are written one at a time, since each of them may be large.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::catalog::search::{Search, closest};
use crate::catalog::typescript::DeclarationWriter;
use crate::catalog::{Catalog, CatalogEntry};
use crate::protocol::declaration::Declaration;
use crate::quota::Account;
use crate::rpc::{ErrorObject, Kind};

/// Hits of a search for bindings.
const HITS_MAX: usize = 20;

/// Bytes of a description that a hit shows: twenty of them stay readable.
const HIT_DESCRIPTION_BYTES_MAX: usize = 1024;

/// Bindings that one question may be about. Past it: the rest is counted.
const EXPLAINED_MAX: usize = 100;

/// Longest text about bindings: some ten thousand tokens. Past it: the rest is left out.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// Bytes of a description in a list.
const BRIEF_BYTES_MAX: usize = 200;

/// Names that are suggested in place of an unknown one.
const SIMILAR_MAX: usize = 3;

/// Bindings that are written or searched in one slice. Each takes some microseconds.
const SLICE_STEPS_MAX: usize = 64;

/// Longest slice where bindings are large: about a slice of a script.
const SLICE_TIME_MAX: Duration = Duration::from_millis(5);

/// The bindings that the scripts of a session see.
#[derive(Clone)]
pub(crate) struct VisibleBindings {
    pub(crate) server: Arc<Catalog>,
    pub(crate) client: Arc<Catalog>,
}

impl VisibleBindings {
    /// The server's, without those that a name of the client hides, then the client's.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<CatalogEntry>> {
        let names = self.client.names();
        let server = self.server.iter().filter(|entry| names.conflict(entry.name()).is_none());
        server.chain(self.client.callable_by_scripts())
    }

    fn declarations(&self) -> impl Iterator<Item = &Declaration> {
        self.iter().map(|entry| &entry.declaration)
    }

    /// Whether these are the server's bindings and no others.
    fn is_server_alone(&self) -> bool {
        self.client.callable_by_scripts().next().is_none()
    }
}

/// Work on many bindings, cut into slices.
pub(super) struct SlicedWork {
    account: Arc<Account>,
    slice_began: Instant,
    steps: usize,
}

impl SlicedWork {
    fn new(account: Arc<Account>) -> Self {
        Self { account, slice_began: Instant::now(), steps: 0 }
    }

    /// To be called after each step; lets others run when the slice is used up.
    async fn end_step(&mut self) {
        self.steps += 1;
        let used = self.slice_began.elapsed();
        if self.steps < SLICE_STEPS_MAX && used < SLICE_TIME_MAX {
            return;
        }
        self.account.charge_cpu(used, Instant::now);
        tokio::task::yield_now().await;
        self.steps = 0;
        self.slice_began = Instant::now();
    }

    fn finish(self) {
        self.account.charge_cpu(self.slice_began.elapsed(), Instant::now);
    }
}

/// The TypeScript declarations of all bindings. `slot` has one permit, for the text that is being written.
pub(super) async fn write_types(
    bindings: VisibleBindings,
    account: Arc<Account>,
    slot: Arc<Semaphore>,
) -> Value {
    // It is never closed; without a permit the text is written beside another one.
    let _permit = slot.acquire().await;
    let is_server_alone = bindings.is_server_alone();
    if is_server_alone && let Some(text) = bindings.server.typescript() {
        return Value::from(text);
    }
    let mut work = SlicedWork::new(account);
    let mut writer = DeclarationWriter::new(bindings.declarations());
    while writer.step() {
        work.end_step().await;
    }
    let text = writer.finish();
    work.finish();
    if is_server_alone {
        bindings.server.keep_typescript(text.clone());
    }
    Value::from(text)
}

/// Which bindings a script wants to know more about.
pub(super) struct Question {
    /// Names of bindings and namespaces. None: all, by their first segments.
    pub(super) names: Vec<String>,
    /// A line for each instead of its TypeScript.
    pub(super) is_brief: bool,
}

/// A text about the bindings of some names.
pub(super) async fn explain(
    bindings: VisibleBindings,
    question: Question,
    account: Arc<Account>,
    slot: Arc<Semaphore>,
) -> Result<Value, ErrorObject> {
    let _permit = slot.acquire().await;
    let mut work = SlicedWork::new(account);
    if question.names.is_empty() {
        let text = overview(&bindings, &mut work).await;
        work.finish();
        return Ok(Value::from(text));
    }
    let mut chosen: Vec<&Declaration> = Vec::new();
    let mut left_out = 0;
    for name in &question.names {
        let before = chosen.len() + left_out;
        for declaration in bindings.declarations() {
            work.end_step().await;
            let rest = declaration.name.strip_prefix(name.as_str());
            let is_meant = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
            match is_meant {
                true if chosen.len() < EXPLAINED_MAX => chosen.push(declaration),
                true => left_out += 1,
                false => {}
            }
        }
        if chosen.len() + left_out == before {
            work.finish();
            return Err(unknown(&bindings, name));
        }
    }
    let mut text = if question.is_brief {
        let lines: Vec<String> = chosen.iter().map(|declaration| line_about(declaration)).collect();
        lines.join("\n")
    } else {
        let mut writer = DeclarationWriter::new(chosen);
        while writer.step() {
            work.end_step().await;
        }
        writer.finish()
    };
    work.finish();
    text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
    if left_out > 0 {
        text.push_str(&format!("\n// and {left_out} more; search('words') finds one of them"));
    }
    Ok(Value::from(text))
}

/// The first segments of all names, with how many bindings each has.
async fn overview(bindings: &VisibleBindings, work: &mut SlicedWork) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for declaration in bindings.declarations() {
        *counts.entry(declaration.name.split('.').next().unwrap_or_default()).or_default() += 1;
        work.end_step().await;
    }
    let line = |(name, count): (&str, usize)| match count {
        1 => name.to_owned(),
        count => format!("{name}: {count} bindings"),
    };
    let mut lines: Vec<String> = counts.into_iter().take(EXPLAINED_MAX).map(line).collect();
    lines.push("search('words') finds bindings, describe('name') is their TypeScript".to_owned());
    lines.join("\n")
}

/// The name and the first sentence of its description.
fn line_about(declaration: &Declaration) -> String {
    match declaration.description.as_deref().map(brief).filter(|text| !text.is_empty()) {
        Some(text) => format!("{}: {text}", declaration.name),
        None => declaration.name.clone(),
    }
}

/// The first line of a description, cut to a length that lists can have.
fn brief(description: &str) -> &str {
    let line = description.trim().lines().next().unwrap_or_default();
    &line[..line.floor_char_boundary(BRIEF_BYTES_MAX)]
}

fn unknown(bindings: &VisibleBindings, name: &str) -> ErrorObject {
    let shown: String = name.chars().take(100).collect();
    let mut message = format!("no binding {shown}");
    let similar = closest(bindings.declarations().map(|one| one.name.as_str()), name, SIMILAR_MAX);
    if !similar.is_empty() {
        message.push_str(&format!("; did you mean {}?", similar.join(", ")));
    }
    ErrorObject::new(Kind::UnknownBinding, message)
}

/// The bindings that fit a query best.
pub(super) async fn search(
    bindings: VisibleBindings,
    query: String,
    account: Arc<Account>,
    slot: Arc<Semaphore>,
) -> Value {
    let _permit = slot.acquire().await;
    let mut work = SlicedWork::new(account);
    let mut search = Search::new(&query);
    for declaration in bindings.declarations() {
        search.consider(declaration);
        work.end_step().await;
    }
    let hits = search.finish(HITS_MAX);
    work.finish();
    let shown = |text: &String| text[..text.floor_char_boundary(HIT_DESCRIPTION_BYTES_MAX)].to_owned();
    hits.iter()
        .map(|hit| json!({"name": hit.name, "description": hit.description.as_ref().map(shown)}))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;
    use crate::catalog::{CatalogBuilder, CompiledSchemas};
    use crate::quota::Quotas;
    use crate::schema::SchemaSource;

    const DECLARATIONS: usize = 2_000;

    fn many() -> VisibleBindings {
        let mut builder = CatalogBuilder::default();
        for at in 0..DECLARATIONS {
            let mut declaration = Declaration::named(format!("tool.number{at}"));
            declaration.input = Some(json!({"properties": {"id": {"type": "string"}}}));
            let schemas = CompiledSchemas::compile(&declaration, SchemaSource::Operator).unwrap();
            builder.push(schemas.into_entry(declaration, None));
        }
        VisibleBindings { server: Arc::new(builder.build()), client: Arc::default() }
    }

    /// Runs `work` beside a neighbour; returns its value and how often the neighbour ran meanwhile.
    async fn beside_neighbour(work: impl Future<Output = Value>) -> (Value, usize) {
        let served = Rc::new(Cell::new(0));
        let neighbour = async {
            loop {
                served.set(served.get() + 1);
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            value = work => (value, served.get()),
            () = neighbour => unreachable!("it never ends"),
        }
    }

    #[tokio::test]
    async fn types_of_many_bindings_are_written_in_slices_and_once() {
        let (bindings, slot) = (many(), Arc::new(Semaphore::new(1)));
        let account = Arc::new(Account::new(Quotas::default(), Instant::now()));
        let write = || write_types(bindings.clone(), Arc::clone(&account), Arc::clone(&slot));
        let (text, served) = beside_neighbour(write()).await;
        assert!(served >= DECLARATIONS / SLICE_STEPS_MAX, "{served}");
        assert!(text.as_str().is_some_and(|text| text.contains("number1999")));
        // Ready without a yield: it was kept.
        assert_eq!(futures_util::FutureExt::now_or_never(write()), Some(text));
    }

    #[tokio::test]
    async fn many_bindings_are_searched_in_slices() {
        let (bindings, slot) = (many(), Arc::new(Semaphore::new(1)));
        let account = Arc::new(Account::new(Quotas::default(), Instant::now()));
        let search = search(bindings, "tool.number7".to_owned(), account, slot);
        let (hits, served) = beside_neighbour(search).await;
        assert!(served >= DECLARATIONS / SLICE_STEPS_MAX, "{served}");
        assert_eq!(hits[0]["name"], "tool.number7");
    }
}
