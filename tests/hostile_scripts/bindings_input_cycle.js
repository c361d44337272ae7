// EvalError Unserializable
const o = {}; o.o = o; await echo(o)
