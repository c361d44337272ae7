// value EvalError
Object.defineProperty(globalThis, "undefinedNow", { get() { throw 1; }, set() { throw 2; } }); for (const k of Object.getOwnPropertyNames(globalThis)) { try { delete globalThis[k]; } catch {} } 1
