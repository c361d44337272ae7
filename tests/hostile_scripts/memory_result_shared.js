// ResultTooLarge MemoryLimit Timeout EvalError lost
let o = ["x".repeat(100)]; for (let i = 0; i < 30; i++) o = [o, o]; o
