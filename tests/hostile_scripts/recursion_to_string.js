// StackOverflow EvalError
const o = { toString() { return `${o}`; } }; `${o}`
