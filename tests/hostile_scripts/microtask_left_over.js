// value
function f() { Promise.resolve().then(f); } f(); 1
