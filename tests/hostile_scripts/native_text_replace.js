// value Timeout MemoryLimit
const t = 'a'.repeat(4 << 20); t.replace('a'.repeat(1 << 20) + 'b', '').length
