// StackOverflow EvalError
let p = {}; p = new Proxy(p, { get(t, k) { return p[k]; } }); p.x
