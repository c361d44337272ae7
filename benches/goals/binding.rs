//! An `await` of a Rust binding that is ready, against the bare call of an async Rust function.

use anyhow::{Context as _, Result, bail};
use futures_util::{SinkExt as _, StreamExt as _};
use scomp::server::Server;
use scomp::transport::{Frame, Outgoing, PairEnd};
use serde_json::json;
use std::time::Instant;

use crate::client::check;
use crate::stats::{Samples, nanoseconds};
use crate::table::{Goal, Row, Unit};
use crate::{Scale, floor, ready};

/// Calls of one eval: as many as the default limit allows, so that the eval's own cost vanishes among them.
const CALLS: usize = 1_000;

/// The same script for both sides. It counts up, so that a call that is lost shows.
const SCRIPT: &str =
    "(async () => { let sum = 0; for (let i = 0; i < 1000; i++) sum += await ready(i); return sum; })()";

const SUM: i64 = 499_500;

/// Time of one awaited call, validation of input and output included.
pub(crate) async fn ready_call(scale: Scale) -> Result<Vec<Row>> {
    let server = Server::builder().package(ready::package()).build()?;
    let mut session = server.connect();
    exchange(&mut session, r#"{"jsonrpc":"2.0","id":0,"method":"handshake","params":{"protocol":"0.1"}}"#)
        .await?;
    let (mut ours, mut floor) = (Samples::default(), Samples::default());
    for id in 1..=scale.of(200) {
        let eval =
            json!({"jsonrpc": "2.0", "id": id, "method": "eval", "params": {"code": SCRIPT}}).to_string();
        let start = Instant::now();
        let answer = exchange(&mut session, &eval).await?;
        ours.add(nanoseconds(start.elapsed()) / CALLS as f64);
        check(&answer, &format!(r#""value":{SUM}"#))?;
        floor::async_calls(SCRIPT, CALLS, SUM, &mut floor)?;
    }
    server.stop(std::time::Duration::ZERO).await;
    Ok(vec![Row {
        what: "await of a ready Rust binding / raw async call".to_owned(),
        unit: Unit::Time,
        ours: ours.median(),
        floor: Some(floor.median()),
        goal: Goal::RatioMax(3.0),
    }])
}

async fn exchange(session: &mut PairEnd, text: &str) -> Result<String> {
    session.send(Outgoing::Text(text.to_owned())).await?;
    match session.next().await.context("the server is gone")?? {
        Frame::Text(text) => Ok(text.as_str().to_owned()),
        other => bail!("unexpected: {other:?}"),
    }
}
