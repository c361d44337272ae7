// MemoryLimit Timeout EvalError lost
const a = []; for (let i = 0; ; i++) a.push(new Function("return " + i));
