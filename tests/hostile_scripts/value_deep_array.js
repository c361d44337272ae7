// Unserializable MemoryLimit
let o = []; for (let i = 0; i < 200000; i++) o = [o]; o
