// value MemoryLimit Timeout lost
await Promise.all(Array.from({ length: 200000 }, (_, i) => (async () => { await null; return i; })())); 1
