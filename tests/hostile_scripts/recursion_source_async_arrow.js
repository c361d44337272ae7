// SyntaxError StackOverflow EvalError value MemoryLimit Timeout
eval("async()=>await ".repeat(30000) + "1"); 1
