//! Round trips of one client: an eval, an eval with a reverse-invoke, the first eval, an eval beside endless loops.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::Scale;
use crate::client::{Client, ONE_PLUS_ONE, TWO, check};
use crate::proc::Placement;
use crate::server::Served;
use crate::stats::Samples;
use crate::table::{Goal, Row, Unit};

/// Exchanges of one side before it is the other's turn.
/// Enough to warm the caches, and so few that a neighbour's noise hits both sides.
const EXCHANGES_PER_ROUND: usize = 200;

/// How long a good session is watched beside endless loops, in one round.
/// Well below the CPU limit of the loops.
const LOOPS_WATCHED: Duration = Duration::from_millis(1_500);

/// Pause before a client connects alone: the server has finished the work that the client before caused.
const COMES_ALONE: Duration = Duration::from_millis(20);

/// How long the loops get to reach their pace.
const LOOPS_SETTLE: Duration = Duration::from_millis(200);

/// An eval of `1+1` against an echo of the same frame, and against the least server that evaluates; on cores of their own
/// and all on one.
pub(crate) async fn round_trip(scale: Scale) -> Result<Vec<Row>> {
    let servers = [Served::scomp()?, Served::role("echo-each")?, Served::role("echo-evaluated")?];
    let pids = servers.each_ref().map(Served::pid);
    let [ours, echo, bare] = servers.each_ref().map(Served::address);
    let mut trio = Trio {
        ours: Client::open_session(ours).await?,
        echo: Client::dial(echo).await?,
        bare: Client::dial(bare).await?,
    };
    trio.measure(1).await?;
    let mut rows = Vec::new();
    for (placement, place) in [(Placement::Apart, "a core each"), (Placement::Together, "on one core")] {
        if placement.set(&pids) {
            rows.extend(trio.measure(scale.of(40)).await?.rows(place));
        }
    }
    if rows.is_empty() {
        rows = trio.measure(scale.of(40)).await?.rows("on any core");
    }
    Placement::Anywhere.set(&[]);
    Ok(rows)
}

/// Ours and its two floors, which take turns.
struct Trio<T> {
    ours: T,
    echo: T,
    bare: T,
}

impl Trio<Client> {
    async fn measure(&mut self, rounds: usize) -> Result<Trio<Samples>> {
        let (ours, echo, bare) = Default::default();
        let mut samples = Trio { ours, echo, bare };
        for _ in 0..rounds {
            evals(&mut self.ours, EXCHANGES_PER_ROUND, &mut samples.ours).await?;
            echoes(&mut self.echo, EXCHANGES_PER_ROUND, &mut samples.echo).await?;
            evals(&mut self.bare, EXCHANGES_PER_ROUND, &mut samples.bare).await?;
        }
        Ok(samples)
    }
}

impl Trio<Samples> {
    fn rows(&self, place: &str) -> Vec<Row> {
        let row = |what: &str, ours, floor, goal| Row {
            what: what.replace("PLACE", place),
            unit: Unit::Time,
            ours,
            floor: Some(floor),
            goal,
        };
        let Self { ours, echo, bare } = self;
        let goal = Goal::RatioMax(1.2);
        vec![
            row("eval 1+1, round trip PLACE, p50 / axum echo", ours.median(), echo.median(), goal),
            row("eval 1+1, round trip PLACE, best / axum echo", ours.best_round(), echo.best_round(), goal),
            row("- p50 / an echo that evaluates", ours.median(), bare.median(), Goal::Shown),
            row("- best / an echo that evaluates", ours.best_round(), bare.best_round(), Goal::Shown),
        ]
    }
}

async fn evals(session: &mut Client, count: usize, samples: &mut Samples) -> Result<()> {
    evals_of(session, ONE_PLUS_ONE, count, samples).await
}

/// Evals of a code whose value is two.
async fn evals_of(session: &mut Client, code: &str, count: usize, samples: &mut Samples) -> Result<()> {
    samples.start_round();
    for _ in 0..count {
        let text = session.eval_text(code);
        let start = Instant::now();
        let answer = session.exchange(text).await?;
        samples.add_time(start.elapsed());
        check(&answer, TWO)?;
    }
    Ok(())
}

async fn echoes(mirror: &mut Client, count: usize, samples: &mut Samples) -> Result<()> {
    samples.start_round();
    for _ in 0..count {
        let text = mirror.eval_text(ONE_PLUS_ONE);
        let start = Instant::now();
        let answer = mirror.exchange(text).await?;
        samples.add_time(start.elapsed());
        check(&answer, ONE_PLUS_ONE)?;
    }
    Ok(())
}

/// An eval that calls a function of the client, against one that calls a function of its own.
pub(crate) async fn reverse_invoke(scale: Scale) -> Result<Vec<Row>> {
    let server = Served::scomp()?;
    let mut session = Client::open_session(server.address()).await?;
    let text = session.eval_text("globalThis.own = async () => 2; 2");
    check(&session.exchange(text).await?, TWO)?;
    Placement::Apart.set(&[server.pid()]);
    let (mut ours, mut own, mut plain) = (Samples::default(), Samples::default(), Samples::default());
    for _ in 0..scale.of(40) {
        evals_of(&mut session, ONE_PLUS_ONE, EXCHANGES_PER_ROUND, &mut plain).await?;
        evals_of(&mut session, "await own({})", EXCHANGES_PER_ROUND, &mut own).await?;
        ours.start_round();
        for _ in 0..EXCHANGES_PER_ROUND {
            let text = session.eval_text("await notify({})");
            let start = Instant::now();
            let answer = session.exchange_with_invoke(text).await?;
            ours.add_time(start.elapsed());
            check(&answer, TWO)?;
        }
    }
    Placement::Anywhere.set(&[]);
    let row = |what: &str, floor: &Samples, goal| Row {
        what: what.to_owned(),
        unit: Unit::Time,
        ours: ours.median(),
        floor: Some(floor.median()),
        goal,
    };
    Ok(vec![
        row("eval with one reverse-invoke / with a function of its own", &own, Goal::RatioMax(2.0)),
        row("- the same / eval 1+1", &plain, Goal::Shown),
    ])
}

/// From nothing to the first value, against connecting to an echo and hearing it once.
pub(crate) async fn first_eval(scale: Scale) -> Result<Vec<Row>> {
    let (server, echo) = (Served::scomp()?, Served::role("echo-each")?);
    Placement::Apart.set(&[server.pid(), echo.pid()]);
    let (crowd, crowd_floor) = first_evals(&server, &echo, scale.of(300), Duration::ZERO).await?;
    let (alone, alone_floor) = first_evals(&server, &echo, scale.of(300), COMES_ALONE).await?;
    Placement::Anywhere.set(&[]);
    let row = |what: &str, ours: &Samples, floor: &Samples, goal| Row {
        what: what.to_owned(),
        unit: Unit::Time,
        ours: ours.median(),
        floor: Some(floor.median()),
        goal,
    };
    let goal = Goal::RatioMax(3.0);
    Ok(vec![
        row("connect, handshake, first eval / connect, one echo", &crowd, &crowd_floor, goal),
        row("- the same, each 20 ms after the last", &alone, &alone_floor, Goal::Shown),
    ])
}

/// Connects in turns, each after a pause.
async fn first_evals(
    server: &Served,
    echo: &Served,
    count: usize,
    pause: Duration,
) -> Result<(Samples, Samples)> {
    let (mut ours, mut floor) = (Samples::default(), Samples::default());
    for _ in 0..count {
        tokio::time::sleep(pause).await;
        let start = Instant::now();
        let mut session = Client::open_session(server.address()).await?;
        let text = session.eval_text(ONE_PLUS_ONE);
        let answer = session.exchange(text).await?;
        ours.add_time(start.elapsed());
        check(&answer, TWO)?;
        session.close_session().await?;

        tokio::time::sleep(pause).await;
        let start = Instant::now();
        let mut mirror = Client::dial(echo.address()).await?;
        let text = mirror.eval_text(ONE_PLUS_ONE);
        mirror.exchange(text).await?;
        floor.add_time(start.elapsed());
    }
    Ok((ours, floor))
}

/// A good session beside eight that never end, against the same session alone; and an echo beside eight busy threads.
pub(crate) async fn beside_endless_loops(scale: Scale) -> Result<Vec<Row>> {
    let (server, echo) = (Served::scomp()?, Served::role("echo-each")?);
    let mut session = Client::open_session(server.address()).await?;
    let mut mirror = Client::dial(echo.address()).await?;
    let mut loops = Vec::new();
    for _ in 0..8 {
        loops.push(Client::open_session(server.address()).await?);
    }
    let (mut loaded, mut alone) = (Samples::default(), Samples::default());
    let (mut floor_loaded, mut floor_alone) = (Samples::default(), Samples::default());
    for _ in 0..scale.of(10).min(4) {
        evals(&mut session, EXCHANGES_PER_ROUND, &mut alone).await?;
        echoes(&mut mirror, EXCHANGES_PER_ROUND, &mut floor_alone).await?;
        for client in &mut loops {
            let text = client.eval_text("while (true) {}");
            client.send(text).await?;
        }
        tokio::time::sleep(LOOPS_SETTLE).await;
        let start = Instant::now();
        while start.elapsed() < LOOPS_WATCHED {
            evals(&mut session, 1, &mut loaded).await?;
        }
        for client in &mut loops {
            client.cancel_eval().await?;
        }
        let busy = Served::role("busy")?;
        tokio::time::sleep(LOOPS_SETTLE).await;
        let start = Instant::now();
        while start.elapsed() < LOOPS_WATCHED {
            echoes(&mut mirror, 1, &mut floor_loaded).await?;
        }
        drop(busy);
    }
    let row =
        |what: &str, ours, floor, goal| Row { what: what.to_owned(), unit: Unit::Time, ours, floor, goal };
    let (alone, floor_alone) = (Some(alone.median()), Some(floor_alone.median()));
    let (p50, p99) = ("eval 1+1 beside 8 endless loops, p50 / alone", "eval 1+1 beside 8 endless loops, p99");
    let busy = "- axum echo beside 8 busy threads, p50 / alone";
    Ok(vec![
        row(p50, loaded.median(), alone, Goal::RatioMax(1.5)),
        row(p99, loaded.p99(), None, Goal::ValueMax(15e6)),
        row(busy, floor_loaded.median(), floor_alone, Goal::Shown),
        row("- axum echo beside 8 busy threads, p99", floor_loaded.p99(), None, Goal::Shown),
    ])
}
