// value EvalError Timeout Deadlock MemoryLimit
await Array.fromAsync({ length: 1e4, get 5() { throw new Error("no"); } }).catch(e => e.message)
