//! Every kind of state that a script can leave behind, continued and compared with a run that was not interrupted.

use super::{engine, eval, restored};

/// A name, what makes the state, and what is evaluated three times then.
const KINDS: &[(&str, &str, &str)] = &[
    ("closure", "var f = (() => { let n = 1; return () => n *= 3 })()", "f()"),
    (
        "shared closure",
        "var [a, b] = (() => { let n = 0; return [() => ++n, () => n += 10] })()",
        "a() + ',' + b()",
    ),
    ("global let", "let g = 1; const h = { n: 2 }", "g += h.n++"),
    (
        "pending promise",
        "var go, out = []; new Promise(r => go = r).then(x => out.push(x))",
        "go(7); go(8); out.join()",
    ),
    (
        "promise chain",
        "var go, out = []; var p = new Promise(r => go = r); for (let i = 0; i < 5; i++) p = p.then(x => (out.push(x), x + 1))",
        "go(1); out.join()",
    ),
    (
        "Promise.all",
        "var rs = [], out = []; Promise.all([0, 1, 2].map(() => new Promise(r => rs.push(r)))).then(x => out.push(x))",
        "rs.pop()?.(rs.length); out.join(';')",
    ),
    (
        "async function",
        "var next, out = []; (async () => { for (let i = 0; ; i++) { out.push(i + await new Promise(r => next = r)) } })()",
        "next(10); out.join()",
    ),
    (
        "async generator",
        "var out = []; var ag = (async function* () { for (let i = 0; ; i++) yield i * i })()",
        "ag.next().then(x => out.push(x.value)); out.join()",
    ),
    (
        "for await",
        "var rs = [], out = []; (async () => { for await (const x of [0, 1, 2].map(() => new Promise(r => rs.push(r)))) out.push(x) })()",
        "rs.shift()?.('x'); out.join()",
    ),
    (
        "generator",
        "var it = (function* (a) { let n = a; for (;;) n += yield n })(5); it.next()",
        "it.next(2).value",
    ),
    (
        "generator in try",
        "var it = (function* () { try { yield 1; yield 2 } finally { yield 'end' } })(); it.next()",
        "JSON.stringify(it.return(9))",
    ),
    ("nested generator", "var it = (function* () { yield* [1, 2]; yield* 'ab' })()", "it.next().value"),
    ("array iterator", "var it = [5, 6, 7].entries()", "String(it.next().value)"),
    (
        "Map",
        "var m = new Map([[1, 'a'], ['k', 2], [NaN, 3]]); var key = {}; m.set(key, 4)",
        "m.set(m.size, m.size); [m.get(key), m.get(NaN), m.get('k'), m.size].join()",
    ),
    (
        "Map iterator",
        "var m = new Map([[1, 2], [3, 4]]); var it = m.entries(); it.next()",
        "m.set(m.size * 9, 1); String(it.next().value)",
    ),
    ("Set", "var s = new Set(['x', 1, 10n, 1.5])", "s.add('y' + s.size); [...s].join()"),
    ("WeakMap", "var k = {}, w = new WeakMap([[k, 1], [{}, 2]])", "w.set(k, w.get(k) + 1); w.get(k)"),
    (
        "WeakRef",
        "var t = { n: 1 }, r = new WeakRef(t), r2 = new WeakRef({})",
        "[r.deref().n++, r2.deref()].join()",
    ),
    (
        "FinalizationRegistry",
        "var out = []; var fr = new FinalizationRegistry(x => out.push(x)); var t = {}; fr.register(t, 'gone'); t = null",
        "out.join()",
    ),
    (
        "RegExp",
        "var re = /(?<y>\\d{4})-(?<m>\\d\\d)/g",
        "JSON.stringify(re.exec('2024-01 2025-02 2026-03')?.groups ?? null) + re.lastIndex",
    ),
    ("sticky RegExp", "var re = /a|b/uy", "re.test('abab') + ':' + re.lastIndex"),
    ("matchAll", "var it = 'a1b2c3'.matchAll(/[a-z](\\d)/g)", "it.next().value[1]"),
    (
        "class instance",
        "class A { #n = 1; static s = 0; get n() { return this.#n++ } inc() { return ++A.s } } class B extends A { inc() { return super.inc() + 10 } } var o = new B()",
        "[o.n, o.inc(), o instanceof A].join()",
    ),
    (
        "accessor",
        "var o = { x: 1, get y() { return this.x++ }, set y(v) { this.x = v } }; Object.defineProperty(o, 'z', { value: 3 })",
        "o.y + ',' + Object.getOwnPropertyNames(o)",
    ),
    (
        "Symbol",
        "var sy = Symbol('s'), o = { [sy]: 1, [Symbol.for('g')]: 2 }",
        "o[sy]++; [o[sy], o[Symbol.for('g')], sy.description].join()",
    ),
    (
        "Proxy",
        "var log = []; var p = new Proxy({ a: 1 }, { get(t, k) { log.push(String(k)); return t[k] } })",
        "p.a; p.b; log.join()",
    ),
    (
        "revocable Proxy",
        "var { proxy, revoke } = Proxy.revocable({ a: 1 }, {})",
        "(() => { try { return proxy.a } catch (e) { return e.name } finally { revoke() } })()",
    ),
    ("BigInt", "var n = 2n ** 200n", "n = n * 3n + 1n; String(n)"),
    (
        "typed arrays",
        "var buf = new ArrayBuffer(64), u8 = new Uint8Array(buf, 8, 16), f64 = new Float64Array(buf), dv = new DataView(buf)",
        "u8[3] += 5; dv.setInt16(40, u8[3]); f64[1] + ',' + u8.join()",
    ),
    (
        "large buffer",
        "var big = new Uint32Array(100000).map((_, i) => i)",
        "big.reduce((a, b) => (a * 31 + b) >>> 0, big[7]++)",
    ),
    (
        "resizable buffer",
        "var buf = new ArrayBuffer(8, { maxByteLength: 64 }), v = new Uint8Array(buf)",
        "buf.resize(buf.byteLength + 8); v[v.length - 1] = 9; v.join()",
    ),
    ("Date", "var d = new Date(Date.UTC(2024, 1, 29))", "d.setUTCDate(d.getUTCDate() + 1); d.toISOString()"),
    (
        "Error",
        "var e = new TypeError('bad', { cause: new Error('why') })",
        "e.message += '!'; e.message + e.cause.message + (e instanceof TypeError)",
    ),
    (
        "rope and slice",
        "var s = 'ab'.repeat(1000), t = s.slice(1, 900)",
        "s = t + s; t = s.slice(3); s.length + s[77] + t.length",
    ),
    ("wide string", "var s = 'żółw🐢'", "s += [...s].at(-1) + s.normalize('NFD').length; s"),
    ("sparse array", "var a = []; a[1000] = 1; a.x = 2", "a[a.length + 5] = a.length; Object.keys(a).join()"),
    (
        "long array",
        "var a = Array.from({ length: 5000 }, (_, i) => ({ i }))",
        "a.push({ i: a.length }); a.splice(10, 3); a.reduce((s, x) => s + x.i, 0)",
    ),
    (
        "cycle",
        "var o = { n: 0 }; o.self = { o }; ",
        "o.self.o.n++; o = { n: o.n, self: { o: o } }; o.self.o.self.o.n",
    ),
    ("bound function", "var f = function (a, b) { return this.k++ + a + b }.bind({ k: 1 }, 10)", "f(100)"),
    (
        "frozen and dictionary",
        "var o = {}; for (let i = 0; i < 300; i++) o['k' + i] = i; delete o.k5; var z = Object.freeze({ a: 1 })",
        "delete o['k' + Object.keys(o).length]; Reflect.set(z, 'a', 2); Object.keys(o).length + z.a",
    ),
    (
        "eval and Function",
        "var f = new Function('a', 'return a + (this.q = (this.q ?? 0) + 1)')",
        "f.call(globalThis, 1) + (0, eval)('q * 2')",
    ),
    ("arguments", "var args = (function (a) { a = 9; return arguments })(1, 2)", "args[0]++ + args.length"),
    (
        "tagged template",
        "var seen = []; var tag = x => (seen.includes(x) || seen.push(x), seen.length); var f = () => tag`a${1}b`",
        "f(); f()",
    ),
    (
        "TextEncoder and URL",
        "var u = new URL('https://a.example/p?q=1'); var enc = new TextEncoder()",
        "u.searchParams.append('n', enc.encode(u.href).length); u.href",
    ),
    (
        "structuredClone",
        "var o = { m: new Map([[1, new Set([2])]]), d: new Date(0) }; o.o = o",
        "o = structuredClone(o); [o.o === o, o.m.get(1).has(2), +o.d].join()",
    ),
];

#[test]
fn every_kind_of_state_survives_a_restore() {
    for (name, setup, step) in KINDS {
        let plain = engine();
        let mut moved = engine();
        let first = eval(&plain, setup);
        assert!(!first.starts_with("thrown"), "{name}: {first}");
        eval(&moved, setup);
        for round in 0..3 {
            moved = restored(moved);
            let expected = eval(&plain, step);
            assert!(!expected.starts_with("thrown"), "{name}: {expected}");
            assert_eq!(eval(&moved, step), expected, "{name}, round {round}");
        }
    }
}

/// All of them in one heap.
#[test]
fn all_kinds_of_state_survive_together() {
    let (plain, mut moved) = (engine(), engine());
    let scoped = |setup: &str, step: &str, index: usize| {
        format!(
            "var step{index} = (() => {{ {setup}; return () => eval({}) }})(); 0",
            serde_json::json!(step)
        )
    };
    for (index, (_, setup, step)) in KINDS.iter().enumerate() {
        let code = scoped(setup, step, index);
        assert_eq!(eval(&plain, &code), eval(&moved, &code));
    }
    for round in 0..3 {
        moved = restored(moved);
        for (index, (name, _, _)) in KINDS.iter().enumerate() {
            let code = format!("step{index}()");
            assert_eq!(eval(&moved, &code), eval(&plain, &code), "{name}, round {round}");
        }
    }
}
