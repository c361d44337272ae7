// StackOverflow EvalError
function f() { [2, 1].sort(f); } f();
