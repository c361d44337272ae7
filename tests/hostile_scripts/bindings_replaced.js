// value EvalError
try { getOrder = () => ({ total: 0 }); } catch {} try { globalThis.getOrder = 5; } catch {} try { delete globalThis.getOrder; } catch {} try { memory.transact = 5; } catch {} try { Object.setPrototypeOf(memory, null); } catch {} try { Object.defineProperty(memory, "transact", { value: 5 }); } catch {} typeof memory
