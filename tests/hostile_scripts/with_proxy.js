// value EvalError
with (new Proxy({}, { has() { return true; }, get() { return 1; } })) { x }
