// Timeout MemoryLimit StackOverflow value MemoryLimit lost
let p = Promise.resolve(0); for (let i = 0; i < 100000; i++) { const q = p; p = new Promise(r => r(q)); } await p
