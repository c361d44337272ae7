// value EvalError Deadlock
for await (const x of { [Symbol.asyncIterator]() { return { next: async () => ({ done: false, value: 1 }), return() { throw new Error("no"); } }; } }) break; 1
