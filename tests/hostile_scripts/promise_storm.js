// Timeout MemoryLimit
const all = []; for (;;) all.push(new Promise(() => {}).then(() => 1));
