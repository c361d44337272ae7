// value Timeout MemoryLimit
const x = 'a'.repeat(4 << 20) + 'b', y = 'a'.repeat(4 << 20) + 'c'; const o = s => ({ toString: () => s }); Array.from({ length: 1 << 12 }, (_, i) => o(i & 1 ? x : y)).sort().length
