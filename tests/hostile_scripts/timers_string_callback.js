// value EvalError
try { setTimeout("globalThis.x = 1", 0); } catch (e) { e.name }
