// SyntaxError StackOverflow EvalError value MemoryLimit Timeout
eval("(class { x = ".repeat(20000) + "1" + "})".repeat(20000)); 1
