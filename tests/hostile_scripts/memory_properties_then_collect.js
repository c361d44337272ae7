// MemoryLimit value EvalError lost
// Fills the heap, makes the properties of objects grow where nothing is left, and drops them all, so that garbage is collected.
globalThis.hold = [];
try { for (let size = 1 << 20; size >= 4096; size /= 2) for (;;) { try { hold.push(new Uint8Array(size)); } catch { break; } } } catch {}
let ring = { __proto__: null };
for (let i = 0; i < 200000; i++) { ring["p" + i] = { i, ring }; if (i % 5000 === 4999) ring = { __proto__: null }; }
1
