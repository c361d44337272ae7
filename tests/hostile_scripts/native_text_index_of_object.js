// value Timeout MemoryLimit
const t = 'a'.repeat(4 << 20), n = 'a'.repeat(1 << 20) + 'b'; String.prototype.indexOf.call(new String(t), { toString: () => n })
