// MemoryLimit Timeout Unserializable EvalError EvalError lost
({ toJSON() { return "x".repeat(1e9); } })
