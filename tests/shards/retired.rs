//! A shard that is stuck in native code: what it may still do, who pays for it, and how it ends.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use scomp::binding::{BindingLimits, Roles, handler};
use scomp::client::ClientError;
use scomp::limits::Limits;
use scomp::package::Package;
use scomp::protocol::declaration::Declaration;
use scomp::protocol::methods::EvalParams;
use scomp::quota::Quotas;
use scomp::server::settings::TokenSettings;
use serde_json::Value;

use crate::harness::{WAIT_MAX, builder, connect, gate_with, get, start};

/// Stands for a builtin that does not come back until it is released.
#[derive(Clone, Default)]
struct Native {
    is_released: Arc<AtomicBool>,
    calls: Arc<AtomicUsize>,
}

impl Native {
    fn package(&self) -> Package {
        let native = self.clone();
        let spin = move |_: Value, _call| {
            let native = native.clone();
            async move {
                while !native.is_released.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
                Ok(Value::Null)
            }
        };
        let native = self.clone();
        let count = move |_: Value, _call| {
            native.calls.fetch_add(1, Ordering::Relaxed);
            async { Ok(Value::Null) }
        };
        Package::new("native")
            .with(Declaration::named("native.spin"), BindingLimits::default(), handler(spin))
            .with(Declaration::named("native.count"), BindingLimits::default(), handler(count))
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

/// What `/metrics` says of stuck shards: those now, the sessions on them, all that were retired, those that ended.
async fn stuck(address: SocketAddr) -> Option<[u64; 4]> {
    let page = get(address, "/metrics", "Authorization: Bearer token-c\r\nConnection: close\r\n").await;
    let number = |name: &str| {
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        line.trim().parse().ok()
    };
    Some([
        number("scomp_stuck_shards")?,
        number("scomp_lost_sessions")?,
        number("scomp_retired_shards_total")?,
        number("scomp_ended_shards_total")?,
    ])
}

async fn until_stuck(address: SocketAddr, wanted: [u64; 4]) {
    let reached = async {
        while stuck(address).await != Some(wanted) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(WAIT_MAX, reached).await.unwrap();
}

/// The quota that is used up.
fn exceeded(error: &ClientError) -> Option<String> {
    let quota = error.rpc()?.data.as_ref()?.get("quota")?;
    Some(quota.as_str()?.to_owned())
}

#[tokio::test]
async fn stuck_shard_acts_no_more_is_charged_and_ends() {
    let native = Native::default();
    let quotas = Quotas { sessions_max: Some(2), cpu_seconds_per_minute: Some(2.0), ..Quotas::default() };
    let tokens = [
        TokenSettings::of_token("ann", "token-a"),
        TokenSettings::of_token("bob", "token-b"),
        TokenSettings { roles: Roles::all(), ..TokenSettings::of_token("cyd", "token-c") },
    ];
    // A shard counts as stuck two seconds after the CPU limit.
    let limits = Limits { cpu_ms_max: 500, ..Limits::default() };
    let server =
        builder().limits(limits).package(native.package()).gate(gate_with(tokens.to_vec(), quotas, &[]));
    let (_server, address) = start(server).await;
    let eval = |code: &str| EvalParams { code: code.to_owned(), ..EvalParams::default() };
    // On the same shard: one that calls a binding again and again, and one whose turn is suspended.
    let caller = connect(address, "token-b").await.unwrap();
    caller.eval("setInterval(() => native.count({}), 1); 1").await.unwrap();
    while native.calls() == 0 {
        tokio::task::yield_now().await;
    }
    let suspended = connect(address, "token-b").await.unwrap();
    let stuck = connect(address, "token-a").await.unwrap();
    let suspended = suspended.start_eval(eval("for (;;);")).await.unwrap();
    let stuck = stuck.start_eval(eval("native.spin({}); for (;;) native.count({})")).await.unwrap();
    // The sockets are shut when the shard is retired.
    assert!(tokio::time::timeout(WAIT_MAX, stuck).await.unwrap().is_err());
    assert!(tokio::time::timeout(WAIT_MAX, suspended).await.unwrap().is_err());
    let calls = native.calls();
    until_stuck(address, [1, 3, 1, 0]).await;
    // What is lost still counts: the time of the thread, and the places of the sessions.
    let ann = connect(address, "token-a").await.unwrap();
    assert_eq!(exceeded(&ann.eval("1").await.unwrap_err()).as_deref(), Some("cpu"));
    let refused = connect(address, "token-b").await.unwrap_err();
    assert_eq!(exceeded(&refused).as_deref(), Some("sessions"));

    native.is_released.store(true, Ordering::Relaxed);
    until_stuck(address, [0, 0, 1, 1]).await;
    assert_eq!(native.calls(), calls, "a lost session called a binding");
    let bob = connect(address, "token-b").await.unwrap();
    assert_eq!(bob.eval("1 + 1").await.unwrap().value, 2);
}
