// value EvalError MemoryLimit Timeout EvalError lost
for (let i = 0; i < 1e6; i++) console.log("x".repeat(1000)); 1
