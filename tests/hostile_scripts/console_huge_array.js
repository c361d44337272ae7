// value MemoryLimit Timeout
console.log(new Array(1e6)); const a = []; a[4294967290] = 1; console.log(a); console.log(new Uint8Array(1e6)); console.log(new Map(Array.from({ length: 1e4 }, (_, i) => [i, i]))); 1
