//! Many evals of several sessions of one shard, each with its heap out of memory after every turn.

use serde_json::json;

use super::live;
use super::support::Wire;

/// Evals of the test; each is several turns.
const EVALS: u64 = 1_000;

#[tokio::test]
async fn sessions_take_turns_in_and_out_of_memory() {
    let live = live().await;
    let mut wires = Vec::new();
    for seed in 0..4 {
        let mut wire = Wire::live(&live.running.url).await;
        let setup = format!(
            "let sum = {seed}, list = [], map = new Map();
             const add = (x) => (sum = (Math.imul(sum, 31) + x) | 0);
             const step = async (n) => {{
               list.push({{n, text: 'x'.repeat(n % 97)}});
               if (list.length > 40) list.splice(0, n % 40);
               map.set('k' + n % 50, list.at(-1));
               await null;
               add(await echo(n) + map.size + list.length);
               if (n % 10 === 0) await new Promise((r) => setTimeout(r, 1));
               return sum;
             }}; 0"
        );
        wire.value(&setup).await;
        wires.push(wire);
    }
    let mut expected = [0_i32, 1, 2, 3].map(|seed| Model { sum: seed, ..Model::default() });
    for n in 0..EVALS / 4 {
        for (wire, model) in wires.iter_mut().zip(&mut expected) {
            assert_eq!(wire.value(&format!("await step({n})")).await, json!(model.step(n)), "step {n}");
        }
    }
    assert!(live.metric("scomp_wake_duration_seconds_count").await >= EVALS as f64);
}

/// The same without JavaScript.
#[derive(Default, Clone)]
pub(super) struct Model {
    sum: i32,
    list: usize,
    keys: std::collections::BTreeSet<u64>,
}

impl Model {
    pub(super) fn step(&mut self, n: u64) -> i32 {
        self.list += 1;
        if self.list > 40 {
            self.list -= (n % 40) as usize;
        }
        self.keys.insert(n % 50);
        let added = n as i32 + self.keys.len() as i32 + self.list as i32;
        self.sum = self.sum.wrapping_mul(31).wrapping_add(added);
        self.sum
    }
}
