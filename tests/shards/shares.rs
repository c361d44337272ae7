//! The time of a shard is shared between principals, whatever the number of their sessions.

use scomp::client::Client;
use scomp::limits::Limits;
use scomp::protocol::methods::EvalParams;
use scomp::quota::Quotas;

use crate::harness::{builder, connect, gate, start};

/// Sessions of the principal that wants everything. Without shares a job takes that many times as long as alone.
const GREEDY_SESSIONS: usize = 100;

/// Shares of two principals make a job take twice as long; the rest is for what is not JavaScript.
const SLOWDOWN_MAX: f64 = 12.0;

/// Runs a job of one principal beside `greedy` in all sessions of another. Returns how many times as long as its CPU
/// time it takes; both are measured on the same thread, so a busy machine changes neither much.
async fn slowdown_beside(greedy: &str) -> f64 {
    let tokens = [("ann", "token-a"), ("bob", "token-b")];
    let limits = Limits { cpu_ms_max: 60_000, ..Limits::default() };
    let (server, address) = start(builder().limits(limits).gate(gate(&tokens, Quotas::default(), &[]))).await;
    let eval = |code: &str| EvalParams { code: code.to_owned(), stats: true, ..EvalParams::default() };
    let bob = connect(address, "token-b").await.unwrap();
    let mut greedy_clients: Vec<Client> = Vec::new();
    let mut greedy_evals = Vec::new();
    for _ in 0..GREEDY_SESSIONS {
        let client = connect(address, "token-a").await.unwrap();
        greedy_evals.push(client.start_eval(eval(greedy)).await.unwrap());
        greedy_clients.push(client);
    }
    let job = "let sum = 0; for (let i = 0; i < 2e6; i++) sum += i; sum";
    let job = bob.eval_with(eval(job)).await.unwrap();
    let stats = job.stats.unwrap();
    server.stop(std::time::Duration::ZERO).await;
    println!("{} ms of CPU time in {} ms", stats.cpu_ms, stats.wall_ms);
    stats.wall_ms / stats.cpu_ms
}

#[tokio::test]
async fn job_beside_endless_loops_of_another_gets_its_share() {
    let slowdown = slowdown_beside("for (;;);").await;
    assert!(slowdown < SLOWDOWN_MAX, "{slowdown}");
}

#[tokio::test]
async fn job_beside_a_flood_of_short_turns_gets_its_share() {
    let flood = "const tick = () => { for (let i = 0; i < 500; i++); setTimeout(tick, 0); }; tick();
        await new Promise((resolve) => setTimeout(resolve, 1e6))";
    let slowdown = slowdown_beside(flood).await;
    assert!(slowdown < SLOWDOWN_MAX, "{slowdown}");
}
