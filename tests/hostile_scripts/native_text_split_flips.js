// value Timeout MemoryLimit EvalError
const t = 'a'.repeat(4 << 20), n = 'a'.repeat(1 << 20) + 'b'; let asked = 0; t.split({ get [Symbol.split]() { return asked++ ? undefined : () => 1; }, toString: () => n })
