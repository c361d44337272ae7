// MemoryLimit EvalError StackOverflow Timeout value ResultTooLarge EvalError lost
let s = "abc"; for (let i = 0; i < 26; i++) s = s + "x" + s; s.charCodeAt(5)
