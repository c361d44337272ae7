// value EvalError MemoryLimit Timeout EvalError lost
for (let i = 0; i < 1e6; i++) { console.time("l" + i); console.count("c" + i); } 1
