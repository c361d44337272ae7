// SyntaxError StackOverflow EvalError value MemoryLimit Timeout
eval("(function*(){" + "yield ".repeat(60000) + "1})"); 1
