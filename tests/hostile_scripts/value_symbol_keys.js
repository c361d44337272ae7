// value
({ [Symbol.iterator]: 1, [Symbol("x")]: 2, a: 1 })
