// Timeout MemoryLimit
const s = new Set([0]); for (const x of s) s.add(x + 1);
