// MemoryLimit Timeout value EvalError EvalError lost
const t = new EventTarget(); for (;;) t.addEventListener("x", () => {});
