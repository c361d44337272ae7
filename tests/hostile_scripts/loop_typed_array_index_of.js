// Timeout
const t = new Uint8Array(12 << 20); for (;;) t.indexOf(5);
