//! Round trips of one client: an eval, an eval with a reverse-invoke, the first eval, an eval beside endless loops.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::client::{Client, ONE_PLUS_ONE, TWO, check};
use crate::server::Served;
use crate::stats::Samples;
use crate::table::{Goal, Row, Unit};
use crate::{Scale, proc};

/// Exchanges of one side before it is the other's turn.
/// Enough to warm the caches, and so few that a neighbour's noise hits both sides.
const EXCHANGES_PER_ROUND: usize = 200;

/// How long a good session is watched beside endless loops, in one round.
/// Well below the CPU limit of the loops.
const LOOPS_WATCHED: Duration = Duration::from_millis(1_500);

/// How long before somebody connects who comes alone: the server has done what the one before left to be done.
const COMES_ALONE: Duration = Duration::from_millis(20);

/// How long the loops get to reach their pace.
const LOOPS_SETTLE: Duration = Duration::from_millis(200);

/// An eval of `1+1` against an echo of the same frame.
pub(crate) async fn round_trip(scale: Scale) -> Result<Vec<Row>> {
    let (server, echo) = (Served::scomp()?, Served::role("echo-each")?);
    let mut session = Client::open_session(server.address()).await?;
    let mut mirror = Client::dial(echo.address()).await?;
    evals(&mut session, EXCHANGES_PER_ROUND, &mut Samples::default()).await?;
    echoes(&mut mirror, EXCHANGES_PER_ROUND, &mut Samples::default()).await?;
    let (ours, floor) = in_turns(&mut session, &mut mirror, scale.of(60)).await?;
    let row = |what: &str, ours, floor, goal| Row {
        what: what.to_owned(),
        unit: Unit::Time,
        ours,
        floor: Some(floor),
        goal,
    };
    let goal = Goal::RatioMax(1.2);
    let mut rows = vec![
        row("eval 1+1, round trip, p50 / axum echo", ours.median(), floor.median(), goal),
        row("eval 1+1, round trip, best round / axum echo", ours.best_round(), floor.best_round(), goal),
    ];
    // Tells whether the waking of another core is what a lone round trip waits for.
    let (own, all_cores) =
        (std::process::id(), format!("0-{}", std::thread::available_parallelism()?.get() - 1));
    if [server.pid(), echo.pid(), own].into_iter().all(|pid| proc::pin(pid, "0")) {
        let (ours, floor) = in_turns(&mut session, &mut mirror, scale.of(30)).await?;
        rows.push(row(
            "- the same with everything on one core, p50",
            ours.median(),
            floor.median(),
            Goal::Shown,
        ));
    }
    proc::pin(own, &all_cores);
    Ok(rows)
}

async fn in_turns(session: &mut Client, mirror: &mut Client, rounds: usize) -> Result<(Samples, Samples)> {
    let (mut ours, mut floor) = (Samples::default(), Samples::default());
    for _ in 0..rounds {
        evals(session, EXCHANGES_PER_ROUND, &mut ours).await?;
        echoes(mirror, EXCHANGES_PER_ROUND, &mut floor).await?;
    }
    Ok((ours, floor))
}

async fn evals(session: &mut Client, count: usize, samples: &mut Samples) -> Result<()> {
    samples.start_round();
    for _ in 0..count {
        let text = session.eval_text(ONE_PLUS_ONE);
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

/// An eval that calls the client once, against one that does not.
pub(crate) async fn reverse_invoke(scale: Scale) -> Result<Vec<Row>> {
    let server = Served::scomp()?;
    let mut session = Client::open_session(server.address()).await?;
    evals(&mut session, EXCHANGES_PER_ROUND, &mut Samples::default()).await?;
    let (mut ours, mut floor) = (Samples::default(), Samples::default());
    for _ in 0..scale.of(40) {
        evals(&mut session, EXCHANGES_PER_ROUND, &mut floor).await?;
        ours.start_round();
        for _ in 0..EXCHANGES_PER_ROUND {
            let text = session.eval_text("await notify({})");
            let start = Instant::now();
            let answer = session.exchange_with_invoke(text).await?;
            ours.add_time(start.elapsed());
            check(&answer, TWO)?;
        }
    }
    Ok(vec![Row {
        what: "eval with one reverse-invoke / eval 1+1".to_owned(),
        unit: Unit::Time,
        ours: ours.median(),
        floor: Some(floor.median()),
        goal: Goal::RatioMax(2.0),
    }])
}

/// From nothing to the first value, against connecting to an echo and hearing it once.
pub(crate) async fn first_eval(scale: Scale) -> Result<Vec<Row>> {
    let (server, echo) = (Served::scomp()?, Served::role("echo-each")?);
    let (crowd, crowd_floor) = first_evals(&server, &echo, scale.of(300), Duration::ZERO).await?;
    let (alone, alone_floor) = first_evals(&server, &echo, scale.of(300), COMES_ALONE).await?;
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

/// A good session beside eight that never end, against the same session alone.
pub(crate) async fn beside_endless_loops(scale: Scale) -> Result<Vec<Row>> {
    let server = Served::scomp()?;
    let mut session = Client::open_session(server.address()).await?;
    let mut loops = Vec::new();
    for _ in 0..8 {
        loops.push(Client::open_session(server.address()).await?);
    }
    let (mut loaded, mut alone) = (Samples::default(), Samples::default());
    for _ in 0..scale.of(10).min(4) {
        evals(&mut session, EXCHANGES_PER_ROUND, &mut alone).await?;
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
    }
    let row =
        |what: &str, ours, floor, goal| Row { what: what.to_owned(), unit: Unit::Time, ours, floor, goal };
    let alone = Some(alone.median());
    Ok(vec![
        row("eval 1+1 beside 8 endless loops, p50 / alone", loaded.median(), alone, Goal::RatioMax(1.5)),
        row("eval 1+1 beside 8 endless loops, p99", loaded.p99(), None, Goal::ValueMax(15e6)),
    ])
}
