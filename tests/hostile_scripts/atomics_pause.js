// EvalError value Timeout
for (;;) Atomics.pause?.(1000)
