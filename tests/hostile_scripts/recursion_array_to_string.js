// StackOverflow EvalError value
const a = []; a.push({ toString() { return String(a.concat([{ toString: this.toString }])); } }); String(a)
