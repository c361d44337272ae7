// EvalError TooManyCalls Timeout MemoryLimit lost
for (;;) echo(1).catch(() => {});
