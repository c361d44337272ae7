// value Timeout
const x = 'a'.repeat(4 << 20) + 'b', y = 'a'.repeat(4 << 20) + 'c'; new Set(Array.from({ length: 1 << 15 }, (_, i) => i & 1 ? x : y)).size
