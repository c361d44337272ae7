// MemoryLimit Timeout Unserializable EvalError EvalError lost
({ get a() { const a = []; for (;;) a.push(new Array(1000).fill(0)); } })
