//! Resident memory: of an idle session, and of a server whose sessions are gone.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use rquickjs::{Context, Runtime};
use serde_json::Value;

use crate::client::{Client, ONE_PLUS_ONE, TWO, check};
use crate::server::{Served, output_of_role};
use crate::stats::Figure;
use crate::table::{Goal, Row, Unit};
use crate::{Scale, proc};

/// What a connection may cost beside its context.
const CONNECTION_BYTES: f64 = 8e3;

/// Connections that are opened or closed at one time; more would only fill the queue of the listener.
const CONCURRENT_MAX: usize = 32;

/// Sessions before the first look, so that every shard has had some.
const WARM_UP_SESSIONS: usize = 16;

/// How long the shards get to come to rest after them.
const WARM_UP_REST: Duration = Duration::from_millis(500);

/// How long a server may take to release memory after its sessions are closed: it does so only periodically.
const TIDY_WAIT_MAX: Duration = Duration::from_secs(20);

/// Memory of bare contexts, as reported by the process that holds them.
pub(crate) struct Bare {
    pub(crate) resident_each: f64,
    heap_each: f64,
}

/// Memory of an idle session against a bare context with the prelude, and of the server afterwards.
pub(crate) async fn sessions(scale: Scale) -> Result<Vec<Row>> {
    let count = scale.of(1_000);
    let bare = bare_contexts(count)?;
    let server = Served::scomp()?;
    // What is made once, at the first use, is not a cost of a session; nor are the spare contexts of every shard.
    close(open(&server, WARM_UP_SESSIONS).await?).await?;
    tokio::time::sleep(WARM_UP_REST).await;
    let before = resident(&server)?;
    let mut clients = open(&server, count).await?;
    let idle = (resident(&server)? - before) / count as f64;
    let heap = heap_of(clients.first_mut().context("no session")?).await?;
    for client in &mut clients {
        let text = client.eval_text(ONE_PLUS_ONE);
        check(&client.exchange(text).await?, TWO)?;
    }
    let used = (resident(&server)? - before) / count as f64;
    close(clients).await?;
    let after = settled(&server, before).await?;

    let prelude = heap - bare.heap_each;
    let floor = Some(Figure::exact(bare.resident_each + prelude + CONNECTION_BYTES));
    let row = |what: String, ours, floor, goal| Row { what, unit: Unit::Memory, ours, floor, goal };
    let exact = Figure::exact;
    Ok(vec![
        row(
            format!("idle session of {count} / context + prelude + 8 KB"),
            exact(idle),
            floor,
            Goal::RatioMax(1.1),
        ),
        row("- the same after its first eval".to_owned(), exact(used), floor, Goal::Shown),
        row("- bare context".to_owned(), exact(bare.resident_each), None, Goal::Shown),
        row("- prelude, on the JavaScript heap".to_owned(), exact(prelude), None, Goal::Shown),
        row(
            format!("server after {count} sessions / before"),
            exact(after),
            Some(exact(before)),
            Goal::RatioMax(1.2),
        ),
    ])
}

async fn open(server: &Served, count: usize) -> Result<Vec<Client>> {
    let opening = (0..count).map(|_| Client::open_session(server.address()));
    stream::iter(opening).buffer_unordered(CONCURRENT_MAX).try_collect().await
}

async fn close(clients: Vec<Client>) -> Result<()> {
    let closing = clients.into_iter().map(Client::close_session);
    stream::iter(closing).buffer_unordered(CONCURRENT_MAX).try_collect().await
}

fn resident(server: &Served) -> Result<f64> {
    Ok(proc::resident_bytes(server.pid())? as f64)
}

/// Resident memory when the server has tidied up: when it is back to what it was, or waited for long enough.
async fn settled(server: &Served, before: f64) -> Result<f64> {
    let deadline = Instant::now() + TIDY_WAIT_MAX;
    loop {
        let now = resident(server)?;
        if now <= before || Instant::now() >= deadline {
            return Ok(now);
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

async fn heap_of(session: &mut Client) -> Result<f64> {
    let info = session.invoke("session.info").await?;
    info.get("memoryBytes").and_then(Value::as_f64).with_context(|| format!("no memoryBytes in {info}"))
}

/// Asks a process of its own, so that nothing else is in the figure.
pub(crate) fn bare_contexts(count: usize) -> Result<Bare> {
    let output = output_of_role(&format!("contexts-{count}"))?;
    let (resident, heap) = output.trim().split_once(' ').with_context(|| format!("it said {output:?}"))?;
    Ok(Bare { resident_each: resident.parse()?, heap_each: heap.parse()? })
}

/// Makes contexts and prints what each takes: resident memory, then heap by the engine's own account.
pub(crate) fn hold_bare_contexts(count: usize) -> Result<()> {
    let first = bare_context()?;
    let heap = first.runtime().memory_usage().malloc_size;
    let before = proc::resident_bytes(std::process::id())?;
    let contexts = (0..count).map(|_| bare_context()).collect::<Result<Vec<_>>>()?;
    let taken = proc::resident_bytes(std::process::id())?.saturating_sub(before);
    println!("{} {heap}", taken as f64 / contexts.len() as f64);
    Ok(())
}

fn bare_context() -> Result<Context> {
    Ok(Context::full(&Runtime::new()?)?)
}
