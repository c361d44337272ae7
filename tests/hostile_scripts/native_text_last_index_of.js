// value Timeout MemoryLimit
const t = 'a'.repeat(4 << 20); t.lastIndexOf('a'.repeat(1 << 20) + 'b' + 'a'.repeat(1 << 20))
