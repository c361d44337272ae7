// EvalError MemoryLimit
throw new (globalThis.InternalError ?? Error)("out of memory")
