// value Unserializable Timeout MemoryLimit ResultTooLarge
const s = new Set(); s.add({ get a() { s.clear(); for (let i = 0; i < 10000; i++) s.add(i); return 1; } }); s
