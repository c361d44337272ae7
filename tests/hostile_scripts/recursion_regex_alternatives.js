// StackOverflow EvalError value MemoryLimit Timeout SyntaxError
/^(?:(a)|b)*?$/.test("ab".repeat(300000))
