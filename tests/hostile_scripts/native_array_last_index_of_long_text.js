// value Timeout MemoryLimit
const x = 'a'.repeat(4 << 20) + 'b', y = 'a'.repeat(4 << 20) + 'c'; Array(1 << 18).fill(x).lastIndexOf(y)
