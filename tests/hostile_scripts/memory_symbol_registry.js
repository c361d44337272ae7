// MemoryLimit Timeout EvalError lost
for (let i = 0; ; i++) Symbol.for("k".repeat(100) + i);
