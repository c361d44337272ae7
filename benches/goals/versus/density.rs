//! Resident memory of a session that does nothing.

use anyhow::Result;

use super::{Case, Entry, Group};
use crate::client::Client;
use crate::contender::{Contender, Part};
use crate::memory::bare_contexts;
use crate::scripts::ONE_PLUS_ONE;
use crate::stats::Figure;
use crate::table::Unit;
use crate::{Scale, proc};

/// Sessions of each server: enough that what the server takes for itself does not show.
const SESSIONS: usize = 200;

/// Sessions before the first look, for whatever is made once.
const WARM_UP: usize = 4;

/// Memory of a session on every server, and of a bare context.
pub(crate) async fn idle_sessions(servers: &[Contender], scale: Scale) -> Result<Vec<Case>> {
    let count = scale.of(SESSIONS);
    let bare = bare_contexts(count)?;
    let mut entries = vec![entry("QuickJS context alone", Part::Floor, bare.resident_each)];
    for server in servers {
        entries.push(entry(server.name, server.part, session_bytes(server, count).await?));
    }
    let what = format!("one of {count}, after its first eval");
    Ok(vec![Case { group: Group::Density, what, unit: Unit::Memory, at: None, entries }])
}

fn entry(who: &'static str, part: Part, bytes: f64) -> Entry {
    Entry { who, part, median: Figure::exact(bytes), best: bytes }
}

async fn session_bytes(contender: &Contender, count: usize) -> Result<f64> {
    let server = contender.start()?;
    let mut clients = Vec::new();
    let mut before = 0;
    for number in 0..WARM_UP + count {
        if number == WARM_UP {
            before = proc::resident_bytes(server.pid())?;
        }
        let mut client = Client::open_session(server.address()).await?;
        let text = client.eval_text(ONE_PLUS_ONE.code);
        client.exchange(text).await?;
        clients.push(client);
    }
    let grown = proc::resident_bytes(server.pid())?.saturating_sub(before);
    Ok(grown as f64 / count as f64)
}
