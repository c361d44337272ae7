// value EvalError Timeout
RegExp.prototype.exec = () => { throw new Error("stolen"); }; RegExp.prototype[Symbol.replace] = () => { throw new Error("stolen"); }; console.log("%s", "a"); new URL("http://a/b"); 1
