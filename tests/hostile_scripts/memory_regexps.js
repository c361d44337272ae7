// MemoryLimit Timeout EvalError lost
const a = []; for (let i = 0; ; i++) a.push(new RegExp("(?:" + "ab".repeat(500) + ")" + i));
