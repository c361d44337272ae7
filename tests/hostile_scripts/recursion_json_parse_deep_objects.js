// StackOverflow EvalError MemoryLimit Timeout value
JSON.parse("{\"a\":".repeat(200000) + "1" + "}".repeat(200000)); 1
