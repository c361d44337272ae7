// value EvalError
globalThis.eval = () => { throw 1; }; globalThis.Function = () => { throw 1; }; 1
