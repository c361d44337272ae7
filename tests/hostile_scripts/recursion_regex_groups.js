// StackOverflow EvalError value MemoryLimit Timeout SyntaxError
/(?:a|(?:b|(?:c)))*$/.test("abc".repeat(200000))
