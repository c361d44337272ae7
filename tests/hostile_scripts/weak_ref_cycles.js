// value MemoryLimit Timeout
for (let i = 0; i < 20000; i++) { const o = {}; o.w = new WeakRef(o); o.m = new WeakMap([[o, o]]); } 1
