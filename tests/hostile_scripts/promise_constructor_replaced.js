// value EvalError
globalThis.Promise = class { constructor() { throw new Error("no"); } }; Promise.resolve = () => { throw 1; }; await 5
