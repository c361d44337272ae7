// SyntaxError StackOverflow EvalError value MemoryLimit Timeout
globalThis.a = {}; a.a = a; eval("a" + ".a".repeat(300000)); 1
