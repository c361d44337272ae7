// EvalError EvalError lost
crypto.getRandomValues(new Uint8Array(1e6))
