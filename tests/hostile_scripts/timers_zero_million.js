// EvalError MemoryLimit Timeout
for (let i = 0; i < 1e6; i++) setTimeout(() => { for (;;) ; }, 0);
