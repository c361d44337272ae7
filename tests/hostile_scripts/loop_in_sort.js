// Timeout MemoryLimit lost
const big = Array.from({ length: 1e6 }, (_, i) => i); for (;;) big.sort(() => Math.random() - 0.5);
