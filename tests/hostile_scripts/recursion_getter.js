// StackOverflow EvalError
const o = { get a() { return this.a; } }; o.a
