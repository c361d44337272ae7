// value EvalError
const c = new AbortController(); c.signal.addEventListener("abort", () => { throw new Error("no"); }); c.abort(); AbortSignal.timeout?.(1e9); AbortSignal.any?.([c.signal]); 1
