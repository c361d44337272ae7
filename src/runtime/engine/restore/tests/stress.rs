//! Random scripts, with the heap copied away and back after every one of them.
//!
//! `RESTORE_SEED` and `RESTORE_EVALS` choose another and a longer run; a failure prints its seed.

use super::{engine, eval, restored};

/// Evals of a run in `cargo test`.
const EVALS: usize = 300;

/// A random number generator that is the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

const SETUP: &str = "var all = [], waiting = [], sum = 0, gens = [], map = new Map();
    var add = (x) => { sum = (Math.imul(sum, 31) + x) | 0; return sum; };
    var hash = (x) => { let h = 0; for (const c of String(x)) h = (Math.imul(h, 31) + c.codePointAt(0)) | 0; return h; }; 0";

/// Things to do, with `N` and `M` as random numbers. They leave garbage, pending work and holes behind.
const ACTIONS: &[&str] = &[
    "all.push({ n: N, list: Array.from({ length: M }, (_, i) => i * N) }); add(all.length)",
    "all.splice(N % (all.length + 1), M % 7); add(all.length)",
    "all.push('x'.repeat(N) + M); add(hash(all.at(-1)))",
    "map.set('k' + (N % 50), { at: M, back: all.at(-1) }); add(map.size)",
    "map.delete('k' + (N % 50)); add(map.size)",
    "waiting.push(null); new Promise((r) => { waiting[waiting.length - 1] = r; }).then((x) => add(x + N)); add(M)",
    "waiting.splice(0, M % 3).forEach((r) => r(N)); add(waiting.length)",
    "gens.push((function* () { for (let i = N; ; i = Math.imul(i, 3) | 0) yield i; })()); add(gens.length)",
    "gens.length = Math.min(gens.length, 20); for (const g of gens) add(g.next().value)",
    "all.push(new Uint8Array(N * 37 + M).fill(M)); add(all.at(-1).length)",
    "all.push(BigInt(N) ** BigInt(M % 40)); add(hash(all.at(-1)))",
    "all.push(((n) => () => add(n++))(N)); add(M)",
    "for (const f of all) if (typeof f === 'function') f(); sum",
    "(async () => { for (let i = 0; i < M % 5; i++) { await null; add(i + N); } })(); sum",
    "all.sort((a, b) => hash(typeof a + String(a?.n)) - hash(typeof b + String(b?.n))); add(hash(all.map((x) => typeof x)))",
    "eval('var dyn' + (N % 30) + ' = (a) => a * ' + M + ' + (globalThis.dyn' + (M % 30) + '?.length ?? 0)'); add(hash(Object.keys(globalThis).length))",
    "all.push(new RegExp('(a|b){' + (M % 9) + '}c*', 'g')); add(all.at(-1).test('ababcc'.repeat(3)))",
    "all.push(JSON.parse(JSON.stringify({ a: [N, M, { deep: 'y'.repeat(M) }] }))); add(hash(JSON.stringify(all.at(-1))))",
    "{ const o = {}; for (let i = 0; i < N; i++) o['p' + i * M] = i; all.push(o); add(Object.keys(o).length); }",
    "{ class C extends Array { #p = N; get p() { return this.#p += M; } } all.push(new C(3)); add(all.at(-1).p) }",
    "try { null.x } catch (e) { all.push(e); add(hash(e.message)); }",
    "if (all.length > 150) all.splice(0, 100); add(all.length)",
];

fn number(name: &str, otherwise: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn random_scripts_go_on_after_every_restore() {
    let seed = number("RESTORE_SEED", 1);
    let mut random = Random(seed as u64);
    let (plain, mut moved) = (engine(), engine());
    assert_eq!(eval(&plain, SETUP), eval(&moved, SETUP));
    for index in 0..number("RESTORE_EVALS", EVALS) {
        let action = ACTIONS[random.below(ACTIONS.len() as u64) as usize];
        let (n, m) = (random.below(200).to_string(), random.below(50).to_string());
        let code = action.replace('N', &n).replace('M', &m).replace(&format!("{m}ath"), "Math");
        let code = code.replace(&format!("JSO{n}"), "JSON");
        if random.below(16) == 0 {
            plain.enter(|ctx| ctx.run_gc());
            moved.enter(|ctx| ctx.run_gc());
        }
        let expected = eval(&plain, &code);
        assert_eq!(eval(&moved, &code), expected, "seed {seed}, eval {index}: {code}");
        assert_eq!(moved.memory_bytes(), plain.memory_bytes(), "seed {seed}, eval {index}: {code}");
        assert!(!expected.starts_with("thrown"), "{code}: {expected}");
        moved = restored(moved);
    }
    assert_eq!(eval(&moved, "sum"), eval(&plain, "sum"));
}
