// Timeout
const x = 'a'.repeat(4 << 20) + 'b', y = 'a'.repeat(4 << 20) + 'c'; for (;;) if (x === y) break;
