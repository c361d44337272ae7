// Timeout MemoryLimit SyntaxError EvalError StackOverflow value
new RegExp("(".repeat(100000) + ")".repeat(100000)).test("a")
