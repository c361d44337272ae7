// value EvalError StackOverflow
const t = new EventTarget(); t.addEventListener("x", () => t.dispatchEvent(new Event("x"))); t.dispatchEvent(new Event("x")); 1
