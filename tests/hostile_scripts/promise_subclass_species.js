// value EvalError Timeout Deadlock
class P extends Promise { static get [Symbol.species]() { return function (f) { f(() => {}, () => {}); }; } } const p = new P(r => r(5)); await p.then(x => x); 5
