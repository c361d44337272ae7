// value EvalError Timeout Deadlock
Object.defineProperty(Object.prototype, "then", { get() { throw 1; }, configurable: true }); const o = await getOrder({ id: "o_001" }).catch(e => 5); delete Object.prototype.then; 1
