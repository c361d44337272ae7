// EvalError TooManyRefs TooManyCalls MemoryLimit Timeout
for (;;) await keeper.keep({ fn: () => {} });
