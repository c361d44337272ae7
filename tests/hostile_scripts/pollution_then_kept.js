// value EvalError Timeout Deadlock
Object.prototype.then = function () { for (;;) {} }; 1
