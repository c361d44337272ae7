// value EvalError Timeout MemoryLimit
Map.groupBy({ *[Symbol.iterator]() { for (let i = 0; i < 1e5; i++) yield i; } }, x => ({}) ).size
