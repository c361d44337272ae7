// SyntaxError StackOverflow EvalError value MemoryLimit Timeout
eval("if (0) ; else ".repeat(50000) + "1"); 1
