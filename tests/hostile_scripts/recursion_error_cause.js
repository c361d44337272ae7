// value EvalError Unserializable
const e = new Error("x"); e.cause = e; throw e;
