// value EvalError Timeout
Object.getPrototypeOf([][Symbol.iterator]()).next = () => ({ done: false, value: 1 }); console.log([1, 2]); structuredClone([1]); await echo([1])
