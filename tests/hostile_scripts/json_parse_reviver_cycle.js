// value EvalError StackOverflow Timeout
JSON.parse("[1,[2],3]", function (k, v) { if (k === "0") this[1] = [this, this]; return v; })
