// StackOverflow EvalError MemoryLimit Timeout value
JSON.parse("[".repeat(1000000))
