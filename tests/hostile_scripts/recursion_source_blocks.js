// SyntaxError StackOverflow EvalError value MemoryLimit Timeout
eval("{".repeat(100000) + "}".repeat(100000)); 1
