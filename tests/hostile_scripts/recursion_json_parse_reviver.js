// StackOverflow EvalError
function f() { JSON.parse("[1]", f); } f();
