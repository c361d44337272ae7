// EvalError MemoryLimit Timeout EvalError lost
for (let i = 0; i < 1e6; i++) setTimeout(() => {}, 1e6);
