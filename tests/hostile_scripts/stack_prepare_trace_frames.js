// EvalError value
Error.prepareStackTrace = (e, frames) => frames; const f = new Error("x").stack; if (Array.isArray(f)) f.map(s => s.getFunction?.()); throw new Error("y")
