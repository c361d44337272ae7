// EvalError ResultTooLarge MemoryLimit value
await echo({ s: "x".repeat(5e6) }); 1
