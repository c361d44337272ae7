// StackOverflow EvalError value MemoryLimit Timeout
let C = class {}; for (let i = 0; i < 20000; i++) { const B = C; C = class extends B {}; } new C(); 1
