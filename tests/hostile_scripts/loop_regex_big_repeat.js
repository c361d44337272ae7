// Timeout MemoryLimit SyntaxError EvalError StackOverflow value
new RegExp("(?:a{1,1000}){1,1000}b").test("a".repeat(5000))
