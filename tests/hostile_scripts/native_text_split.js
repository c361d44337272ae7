// value Timeout MemoryLimit
const t = 'a'.repeat(4 << 20); t.split('a'.repeat(1 << 20) + 'b').length
