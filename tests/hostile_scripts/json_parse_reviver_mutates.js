// value EvalError
JSON.parse("[1,[2],3]", function (k, v) { if (k === "0") this[1] = 5; return v; })
