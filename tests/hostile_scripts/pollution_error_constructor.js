// value EvalError
globalThis.Error = globalThis.TypeError = function () { throw 5; }; Error.prepareStackTrace = () => "stolen"; await getOrder(1, 2)
