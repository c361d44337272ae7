// Timeout
function f() { try { for (;;) {} } finally { f(); } } f();
