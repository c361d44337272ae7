// value MemoryLimit Timeout
const r = new FinalizationRegistry(v => { const o = {}; r.register(o, v); globalThis.kept = o; }); for (let i = 0; i < 100; i++) r.register({ i }, i); await new Promise(r => setTimeout(r, 5)); 1
