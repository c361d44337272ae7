// MemoryLimit Timeout EvalError lost
for (;;) (async () => { await new Promise(r => setTimeout(r, 1e6)); })().catch(() => {});
