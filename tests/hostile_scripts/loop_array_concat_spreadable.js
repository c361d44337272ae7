// Timeout MemoryLimit EvalError value
[].concat({ length: 2 ** 40, [Symbol.isConcatSpreadable]: true })
