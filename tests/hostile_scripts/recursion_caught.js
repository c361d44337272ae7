// value
function f() { try { return f() + 1; } catch { return 0; } } f() >= 0
