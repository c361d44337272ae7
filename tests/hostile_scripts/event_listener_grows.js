// value EvalError Timeout MemoryLimit
const t = new EventTarget(); const f = () => t.addEventListener("x", () => f()); f(); for (let i = 0; i < 15; i++) t.dispatchEvent(new Event("x")); 1
