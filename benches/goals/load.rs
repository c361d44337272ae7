//! CPU time of a request under load: many connections, each with many requests in flight.

use anyhow::Result;
use futures_util::future::try_join_all;

use crate::client::{Client, ONE_PLUS_ONE, TWO};
use crate::server::Served;
use crate::stats::{Figure, Samples, nanoseconds};
use crate::table::{Goal, Row, Unit};
use crate::{Scale, floor, proc};

const CONNECTIONS: usize = 64;
const IN_FLIGHT: usize = 16;

/// A server under load, and what it costs.
struct Loaded {
    server: Served,
    clients: Vec<Client>,
    expected: &'static str,
    cpu_ns: Samples,
}

/// CPU of an eval of `1+1` against an echo with batched flushes plus two raw evals.
pub(crate) async fn cpu_per_request(scale: Scale) -> Result<Vec<Row>> {
    let mut ours = Loaded::connect_sessions().await?;
    let mut batched = Loaded::connect_echoes("echo-batched").await?;
    let mut each = Loaded::connect_echoes("echo-each").await?;
    let (mut plain, mut awaiting, mut in_turns): (Samples, Samples, Samples) = Default::default();
    let per_connection = scale.of(1_000);
    for _ in 0..5 {
        [&mut plain, &mut awaiting, &mut in_turns].into_iter().for_each(Samples::start_round);
        ours.round(per_connection).await?;
        batched.round(per_connection).await?;
        each.round(per_connection).await?;
        floor::plain_evals(scale.of(20_000), &mut plain)?;
        floor::awaiting_evals(scale.of(20_000), &mut awaiting)?;
        floor::evals_in_turns(CONNECTIONS, scale.of(20_000), &mut in_turns)?;
    }
    let floor = |of: fn(&Samples) -> Figure| of(&batched.cpu_ns).value + 2.0 * of(&plain).value;
    let shown = |what: &str, samples: &Samples| Row {
        what: what.to_owned(),
        unit: Unit::Time,
        ours: samples.median(),
        floor: None,
        goal: Goal::Shown,
    };
    let goal = |what: &str, of: fn(&Samples) -> Figure| Row {
        what: what.to_owned(),
        unit: Unit::Time,
        ours: of(&ours.cpu_ns),
        floor: Some(Figure::exact(floor(of))),
        goal: Goal::RatioMax(1.0),
    };
    Ok(vec![
        goal("eval 1+1, CPU at 64 x 16 / batched echo + 2 raw evals", Samples::median),
        goal("eval 1+1, CPU at 64 x 16, best / the same", Samples::best_round),
        shown("- echo, CPU at 64 x 16, batched flush", &batched.cpu_ns),
        shown("- echo, CPU at 64 x 16, flush each", &each.cpu_ns),
        shown("- raw eval of 1+1", &plain),
        shown("- raw eval of 1+1 with promise and job pump", &awaiting),
        shown("- raw eval of 1+1, 64 contexts taking turns", &in_turns),
    ])
}

impl Loaded {
    async fn connect_sessions() -> Result<Self> {
        let server = Served::scomp()?;
        let clients = try_join_all((0..CONNECTIONS).map(|_| Client::open_session(server.address()))).await?;
        Self::warmed(server, clients, TWO).await
    }

    async fn connect_echoes(role: &str) -> Result<Self> {
        let server = Served::role(role)?;
        let clients = try_join_all((0..CONNECTIONS).map(|_| Client::dial(server.address()))).await?;
        Self::warmed(server, clients, ONE_PLUS_ONE).await
    }

    async fn warmed(server: Served, clients: Vec<Client>, expected: &'static str) -> Result<Self> {
        let mut loaded = Self { server, clients, expected, cpu_ns: Samples::default() };
        loaded.round(IN_FLIGHT).await?;
        loaded.cpu_ns = Samples::default();
        Ok(loaded)
    }

    async fn round(&mut self, per_connection: usize) -> Result<()> {
        let before = proc::cpu_time(self.server.pid())?;
        let expected = self.expected;
        let running = self.clients.iter_mut();
        try_join_all(
            running.map(|client| client.pipeline(ONE_PLUS_ONE, IN_FLIGHT, per_connection, expected)),
        )
        .await?;
        let spent = proc::cpu_time(self.server.pid())?.saturating_sub(before);
        self.cpu_ns.start_round();
        self.cpu_ns.add(nanoseconds(spent) / (CONNECTIONS * per_connection) as f64);
        Ok(())
    }
}
