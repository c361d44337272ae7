// value Unserializable Timeout MemoryLimit ResultTooLarge
const m = new Map(); m.set({ get a() { m.clear(); return 1; } }, 1); m.set(2, { get b() { m.set(m.size, 1); return 1; } }); m
