// Timeout MemoryLimit
function f() { queueMicrotask(f); queueMicrotask(f); } f(); await new Promise(() => {});
