// EvalError ResultTooLarge MemoryLimit Timeout value
await echo({ s: "x".repeat(5e6) }); 1
