// value EvalError Timeout lost
try { for (;;) setTimeout(() => {}, 1e7); } catch (e) { e.name }
