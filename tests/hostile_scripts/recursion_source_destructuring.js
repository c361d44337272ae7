// SyntaxError StackOverflow EvalError value MemoryLimit Timeout
eval("var " + "[".repeat(30000) + "a" + "]".repeat(30000) + " = []"); 1
