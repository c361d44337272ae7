// Timeout ResultTooLarge MemoryLimit Unserializable value lost
const m = new Map(); const make = () => ({ get a() { m.set(make(), 1); return 1; } }); m.set(make(), 1); m
