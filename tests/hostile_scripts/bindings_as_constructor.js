// EvalError value
new getOrder({ id: "o_001" })
