//! The code that clients send.

/// Code for an ordinary eval; some of it means harm.
pub(crate) fn any(rng: &mut fastrand::Rng) -> String {
    let n = rng.usize(1..12);
    match rng.u8(0..26) {
        0..=2 => "1 + 1".to_owned(),
        3 | 4 => format!("globalThis.made = Array.from({{ length: {n} }}, (_, i) => (x) => [i, x]); made"),
        5 | 6 => "globalThis.keep = (x) => { (globalThis.kept ??= []).push(x); return x; }; keep".to_owned(),
        7 => format!(
            "globalThis.kept = await Promise.all(Array.from({{ length: {n} }}, () => ask({{ give: true }}))); 1"
        ),
        8 => format!("await ask({{ f: () => {n}, g: globalThis.keep }})"),
        9 => {
            "(globalThis.kept ?? []).flat().map(f => typeof f === 'function' && f(() => 1).catch(() => 0)); 2"
                .to_owned()
        }
        10 => "Promise.all((globalThis.kept ?? []).flat().map(f => typeof f === 'function' ? f(1) : 0))"
            .to_owned(),
        11 => "globalThis.kept = globalThis.made = undefined; 3".to_owned(),
        12 => format!("setTimeout(() => ask({{ late: {n} }}).catch(() => 0), {n}); 4"),
        13 => format!("setInterval(() => ask({{ f: () => 1 }}), {n}); () => 5"),
        14 => format!("await new Promise((done) => setTimeout(done, {})); () => {n}", n * 10),
        15 => "for (;;);".to_owned(),
        16 => "globalThis.list = []; for (;;) list.push({ list })".to_owned(),
        17 => "let local = []; for (;;) local.push([1, 2, 3])".to_owned(),
        18 => "(function f() { return [f()]; })()".to_owned(),
        19 => "await new Promise(() => {})".to_owned(),
        20 => format!("throw new Error('x'.repeat({}))", n * 100),
        21 => "let a = ;".to_owned(),
        22 => format!("console.log({{ n: {n} }}); new Map([[{n}, new Set([() => 1])]])"),
        23 => format!("await kv.set({{ key: 'k{n}', value: {n} }}); await kv.get({{ key: 'k{n}' }})"),
        24 => format!("await holon.serve({{ method: 'm{n}', handler: (x) => x }})"),
        _ => format!("await holon.unserve({{ method: 'm{n}' }})"),
    }
}

/// Code that reports each run, and whose value is another one each time.
pub(crate) fn keyed(rng: &mut fastrand::Rng, key: &str) -> String {
    let report = format!("ran({{ key: '{key}' }}).catch(() => 0);");
    match rng.u8(0..8) {
        0..=2 => format!("{report} Math.random()"),
        3 => format!("await {report} Math.random()"),
        4 => format!(
            "{report} await new Promise((done) => setTimeout(done, {})); Math.random()",
            rng.u8(1..60)
        ),
        5 => format!("{report} [Math.random(), () => 1]"),
        6 => format!(
            "await {report} console.log(Math.random()); globalThis.lost = []; for (;;) lost.push({{}})"
        ),
        _ => format!("{report} await null; throw new Error(String(Math.random()))"),
    }
}
