// value Timeout MemoryLimit
const h = []; h.length = 2 ** 32 - 1; [1, 2].flatMap(() => h).length
