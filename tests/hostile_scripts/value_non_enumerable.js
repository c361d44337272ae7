// value
Object.defineProperty({ a: 1 }, "b", { value: 2 })
