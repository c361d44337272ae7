// StackOverflow EvalError
const o = { [Symbol.toPrimitive]() { return +o; } }; +o
