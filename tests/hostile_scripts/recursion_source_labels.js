// SyntaxError StackOverflow EvalError value MemoryLimit Timeout
let s = ""; for (let i = 0; i < 30000; i++) s += "l" + i + ":"; eval(s + "1"); 1
