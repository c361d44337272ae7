// StackOverflow EvalError SyntaxError
function f() { eval("f()"); } f();
