// value Timeout MemoryLimit
const t = 'a'.repeat(4 << 20); t.indexOf('a'.repeat(1 << 20) + 'b')
