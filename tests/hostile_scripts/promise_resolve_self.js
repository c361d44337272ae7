// EvalError Deadlock
let r; const p = new Promise(f => { r = f; }); r(p); await p
