// SyntaxError StackOverflow EvalError value MemoryLimit Timeout
eval("(function(){".repeat(20000) + "})()".repeat(20000)); 1
