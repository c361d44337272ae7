//! How an eval fares as sessions grow in number, and values in size.

use anyhow::Result;

use super::{Case, Entry, Group, Runner, place_apart, start_all};
use crate::Scale;
use crate::client::Client;
use crate::contender::{Contender, Part, echo, ours};
use crate::scripts::ONE_PLUS_ONE;
use crate::server::Served;
use crate::stats::{Figure, Samples};
use crate::table::{Goal, Row, Unit};
use crate::{proc, versus::latency};

/// Idle sessions beside the one that is measured.
const SESSIONS: [usize; 5] = [1, 10, 100, 1_000, 10_000];

/// Bytes of a value.
const PAYLOADS: [usize; 5] = [100, 1_000, 10_000, 100_000, 1_000_000];

/// Servers with ever more idle sessions, in turns.
pub(crate) async fn with_sessions(scale: Scale) -> Result<Vec<Case>> {
    let mut runners = Vec::new();
    for idle in SESSIONS.map(|count| scale.of(count)) {
        let server = Served::role(&format!("scomp-{idle}"))?;
        let client = Client::open_session(server.address()).await?;
        runners.push((idle, Runner { contender: ours(), server, client, samples: Samples::default() }));
    }
    place_apart(runners.iter().map(|(_, runner)| &runner.server));
    for _ in 0..scale.of(20) {
        for (_, runner) in &mut runners {
            runner.round(ONE_PLUS_ONE, latency::EVALS_PER_ROUND).await?;
        }
    }
    // One that has served the same evals, but has no session beside the one that made them.
    let mut alone = Runner::start(&ours()).await?;
    alone.round(ONE_PLUS_ONE, latency::EVALS_PER_ROUND).await?;
    let empty = proc::resident_bytes(alone.server.pid())?;
    let mut cases = Vec::new();
    for (idle, runner) in &mut runners {
        let resident = proc::resident_bytes(runner.server.pid())?.saturating_sub(empty);
        let each = resident as f64 / *idle as f64;
        let memory = Entry { who: ours().name, part: Part::Ours, median: Figure::exact(each), best: each };
        let case = |what: String, unit, entry| Case {
            group: Group::Sessions,
            what,
            unit,
            at: Some(*idle as f64),
            entries: vec![entry],
        };
        cases.push(case(format!("1+1 beside {idle} idle sessions"), Unit::Time, runner.take_entry(1.0)));
        cases.push(case(format!("memory of one of {idle} idle sessions"), Unit::Memory, memory));
    }
    Ok(cases)
}

/// What most sessions do to one that is busy, and whether their memory grows with their number alone.
pub(crate) fn goals(cases: &[Case]) -> Vec<Row> {
    let of_unit = |unit: Unit| -> Vec<&Case> {
        cases.iter().filter(|case| case.group == Group::Sessions && case.unit == unit).collect()
    };
    let row = |what: String, unit, few: &Case, many: &Case, goal| {
        Some(Row {
            what,
            unit,
            ours: many.entries.first()?.median,
            floor: Some(few.entries.first()?.median),
            goal,
        })
    };
    let mut rows = Vec::new();
    if let [few, .., many] = of_unit(Unit::Time).as_slice() {
        let what = format!("{} / beside {}", many.what, few.at.unwrap_or_default());
        rows.extend(row(what, Unit::Time, few, many, Goal::RatioMax(1.3)));
    }
    // With fewer, what the server itself takes would count.
    if let [.., few, many] = of_unit(Unit::Memory).as_slice() {
        let what = format!("{} / of {}", many.what, few.at.unwrap_or_default());
        rows.extend(row(what, Unit::Memory, few, many, Goal::RatioMax(1.1)));
    }
    rows
}

/// Values of ever more bytes: the code is the value, and so is the answer.
pub(crate) async fn with_payload(servers: &[Contender], scale: Scale) -> Result<Vec<Case>> {
    let mut runners = start_all(&[&[echo()], servers].concat()).await?;
    let mut cases = Vec::new();
    for bytes in PAYLOADS {
        let code = list_of(bytes);
        let count = (200_000 / bytes).clamp(2, 40);
        for _ in 0..scale.of(8) {
            for runner in &mut runners {
                exchange(runner, &code, count).await?;
            }
        }
        cases.push(Case {
            group: Group::Payload,
            what: format!("{bytes} bytes"),
            unit: Unit::Time,
            at: Some(bytes as f64),
            entries: runners.iter_mut().map(|runner| runner.take_entry(1.0)).collect(),
        });
    }
    Ok(cases)
}

async fn exchange(runner: &mut Runner, code: &str, count: usize) -> Result<()> {
    runner.samples.start_round();
    for _ in 0..count {
        let text = runner.client.eval_text(code);
        let start = std::time::Instant::now();
        let answer = runner.client.exchange(text).await?;
        runner.samples.add_time(start.elapsed());
        anyhow::ensure!(answer.len() >= code.len() - 2, "the value came back as {} bytes", answer.len());
    }
    Ok(())
}

/// A list of orders of about so many bytes, in brackets, so that it is an expression.
fn list_of(bytes: usize) -> String {
    let order = r#"{"id":"A-1","lines":["X1","Y2"],"total":29.5}"#;
    let count = (bytes / (order.len() + 1)).max(1);
    format!("([{}])", vec![order; count].join(","))
}
