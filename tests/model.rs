//! Random sessions against a model: clients connect, leave, resume, take over, cancel, and release.
//!
//! The server is the real one on a loopback port and the network loses connections at random; the model is small
//! enough to be right by reading it. Where the two may differ in time only, the model waits for the server.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

mod support;

#[path = "model/client.rs"]
mod client;
#[path = "model/expected.rs"]
mod expected;
#[path = "model/simulation.rs"]
mod simulation;

use proptest::prelude::*;
use simulation::{Simulation, Step, Ticket};

/// Most connections that are open at the same time.
const SLOTS: usize = 3;

fn ticket() -> impl Strategy<Value = Ticket> {
    prop_oneof![4 => Just(Ticket::Current), 2 => Just(Ticket::Previous), 1 => Just(Ticket::Void), 1 => Just(Ticket::Wrong)]
}

fn step() -> impl Strategy<Value = Step> {
    let slot = || 0..SLOTS;
    prop_oneof![
        3 => slot().prop_map(Step::Fresh),
        6 => (slot(), any::<usize>(), ticket())
            .prop_map(|(slot, session, ticket)| Step::Resume { slot, session, ticket }),
        3 => (slot(), any::<i32>()).prop_map(|(slot, value)| Step::Eval { slot, value }),
        2 => (slot(), any::<i32>()).prop_map(|(slot, value)| Step::EvalUnheard { slot, value }),
        6 => (slot(), 0..6_u8, any::<bool>()).prop_map(|(slot, key, heard)| Step::Keyed { slot, key, heard }),
        2 => (slot(), any::<i32>()).prop_map(|(slot, value)| Step::Invoke { slot, value }),
        2 => slot().prop_map(Step::Hold),
        2 => slot().prop_map(Step::Release),
        1 => slot().prop_map(Step::Hang),
        1 => (slot(), any::<bool>()).prop_map(|(slot, queued)| Step::Cancel { slot, queued }),
        3 => slot().prop_map(Step::Drop),
        1 => slot().prop_map(Step::Close),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64, max_shrink_iters: 256, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn sessions_live_as_the_model_says(shards in 1..=2_usize, steps in prop::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut simulation = Simulation::new(shards, SLOTS).await;
            for step in steps {
                simulation.play(step).await;
            }
            simulation.settle_everything().await;
        });
    }
}
