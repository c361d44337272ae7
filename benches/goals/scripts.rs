//! The scripts that every server runs, and what their answers contain.

/// A script, the same for all.
#[derive(Clone, Copy)]
pub(crate) struct Script {
    pub(crate) name: &'static str,
    pub(crate) code: &'static str,
    pub(crate) answer: &'static str,
}

/// The smallest eval.
pub(crate) const ONE_PLUS_ONE: Script = Script { name: "1+1", code: "1+1", answer: r#""value":2"# };

/// What an agent writes: calls of the host, some bookkeeping, a report.
pub(crate) const AGENT: Script = Script {
    name: "agent script, 10 host calls",
    code: "(async () => {
  const wanted = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3];
  const seen = new Map();
  let sum = 0;
  for (const id of wanted) {
    const order = await lookup(id);
    const key = `order-${order.id}`;
    const before = seen.get(key) ?? { count: 0, total: 0 };
    seen.set(key, { count: before.count + 1, total: before.total + order.total });
    sum += order.total;
  }
  const report = [...seen]
    .map(([key, { count, total }]) => ({ key, count, total }))
    .filter(({ total }) => total > 4)
    .sort((a, b) => b.total - a.total || (a.key < b.key ? -1 : 1));
  const lines = report.map(({ key, count, total }) => `${key}: ${count} x, ${total}`);
  const longest = Math.max(...lines.map((line) => line.length));
  const text = lines.map((line) => line.padEnd(longest)).join('; ');
  return { sum, orders: report.length, text };
})()",
    answer: r#""sum":78"#,
};

/// Data work: 100 KB of JSON written, read, filtered and summed.
pub(crate) const JSON: Script = Script {
    name: "JSON work on 100 KB",
    code: "(() => {
  const rows = Array.from({ length: 1200 }, (_, id) => ({
    id, name: `order ${id}`, tags: ['new', 'paid'], customer: { city: 'London' }, total: id / 2,
  }));
  const back = JSON.parse(JSON.stringify(rows));
  return back.filter(({ total }) => total >= 300).reduce((sum, { id }) => sum + id, 0);
})()",
    answer: r#""value":539700"#,
};

/// Bare computing, where a just-in-time compiler shows.
pub(crate) const FIB: Script = Script {
    name: "fib(25)",
    code: "(function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); })(25)",
    answer: r#""value":75025"#,
};

/// A hundred calls of the host, one after the other, and little else.
pub(crate) const HUNDRED_CALLS: Script = Script {
    name: "100 host calls",
    code: "(async () => { let sum = 0; for (let i = 0; i < 100; i++) sum += (await lookup(i)).total; return sum; })()",
    answer: r#""value":9900"#,
};

/// A call of the client. Not all peers know `await` at the top level.
pub(crate) const NOTIFY: Script =
    Script { name: "one reverse-invoke", code: "(async () => await notify({}))()", answer: r#""value":2"# };

/// A script that never ends by itself.
pub(crate) const ENDLESS: &str = "while (true) {}";
