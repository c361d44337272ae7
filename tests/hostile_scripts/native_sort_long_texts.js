// value Timeout MemoryLimit
const x = 'a'.repeat(4 << 20) + 'b', y = 'a'.repeat(4 << 20) + 'c'; Array.from({ length: 1 << 14 }, (_, i) => i & 1 ? x : y).sort().length
