// value Timeout MemoryLimit
let a = []; for (let i = 0; i < 30; i++) a = [a, a]; a.flat(Infinity).length
