// Timeout MemoryLimit SyntaxError EvalError StackOverflow value
new RegExp("[".repeat(50000) + "]".repeat(50000), "v").test("a")
