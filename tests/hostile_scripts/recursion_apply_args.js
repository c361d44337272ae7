// StackOverflow EvalError MemoryLimit value Timeout
String.fromCharCode.apply(null, { length: 4000000 }).length
