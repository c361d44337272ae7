// StackOverflow EvalError
function f() { "a".replace(/a/, f); } f();
