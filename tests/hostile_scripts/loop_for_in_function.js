// Timeout
function f() { for (;;) ; } f();
