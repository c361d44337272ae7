// EvalError Timeout MemoryLimit
'\u0323\u0307'.repeat(1 << 18).normalize('NFD').length
