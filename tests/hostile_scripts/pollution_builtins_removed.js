// value EvalError
for (const g of ["Object", "Array", "Map", "Set", "Promise", "Error", "JSON", "Symbol", "Reflect", "Proxy", "Date", "RegExp", "String", "Number", "WeakMap", "FinalizationRegistry"]) { globalThis[g] = undefined; } console.log({ a: [1] }); await echo({ a: 1 })
