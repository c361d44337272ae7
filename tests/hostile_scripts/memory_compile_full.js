// MemoryLimit value EvalError lost
// Fills the heap until little is left, then compiles a large source: the compiler asks for memory at every place that it has.
const source = "({" + Array.from({ length: 20000 }, (_, i) => "a" + i + ": (x) => x + " + i).join() + "})";
globalThis.hold = [];
try { for (let size = 1 << 20; size >= 4096; size /= 2) for (;;) { try { hold.push(new Uint8Array(size)); } catch { break; } } } catch {}
hold.length -= 3;
(0, eval)(source);
1
