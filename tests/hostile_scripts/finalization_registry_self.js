// value
let r = new FinalizationRegistry(() => {}); r.register(r, 1); r = null; const w = new WeakRef({}); w.deref(); 1
