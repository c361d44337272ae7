// value EvalError Unserializable
typeof JSON.rawJSON === "function" ? JSON.rawJSON("1") : 1
