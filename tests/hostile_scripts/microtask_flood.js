// Timeout MemoryLimit lost
function f() { queueMicrotask(f); queueMicrotask(f); } f(); await new Promise(() => {});
