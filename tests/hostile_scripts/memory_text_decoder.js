// MemoryLimit Timeout value EvalError EvalError lost
const b = new Uint8Array(4e6); const a = []; for (;;) a.push(new TextDecoder().decode(b));
