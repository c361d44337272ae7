// Timeout value EvalError StackOverflow
/^(?=(a+))*b/.test("a".repeat(1e5)); /(?:(?=(a*))\1)*b/.test("a".repeat(50) + "c"); /(x+x+)+y/.test("x".repeat(60))
