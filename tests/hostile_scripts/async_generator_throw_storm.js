// value MemoryLimit Timeout lost
async function* g() { try { yield 1; } finally { yield 2; } } const it = g(); for (let i = 0; i < 20000; i++) it.next().catch(() => {}); for (let i = 0; i < 20000; i++) it.return(1).catch(() => {}); 1
