// EvalError value Timeout Deadlock
await Atomics.waitAsync(new Int32Array(new SharedArrayBuffer(8)), 0, 0).value
