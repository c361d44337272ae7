// value Timeout MemoryLimit
const h = []; h.length = 2 ** 24; Array(4096).fill(h).flat().length
