// value Unserializable Timeout MemoryLimit ResultTooLarge
const o = {}; let n = 0; const add = () => Object.defineProperty(o, "k" + n++, { enumerable: true, get() { add(); return 1; } }); add(); o
