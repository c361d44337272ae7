// value EvalError
try { structuredClone({ get a() { throw new Error("no"); } }); } catch (e) { e.message }
