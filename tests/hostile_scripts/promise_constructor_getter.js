// value EvalError Timeout
const p = Promise.resolve(3); Object.defineProperty(p, "constructor", { get() { for (;;) {} } }); await p
