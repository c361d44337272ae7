// value EvalError
console.log({ [Symbol.for("nodejs.util.inspect.custom")]() { throw new Error("no"); } }); 1
