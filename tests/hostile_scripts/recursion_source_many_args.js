// SyntaxError StackOverflow EvalError value MemoryLimit Timeout
eval("Math.max(" + "1,".repeat(70000) + "1)"); 1
