// Timeout
async function f() { try { for (;;) await 0; } catch (e) { return f(); } } await f();
