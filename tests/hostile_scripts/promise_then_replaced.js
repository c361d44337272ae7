// value EvalError Timeout Deadlock
Promise.prototype.then = function () { for (;;) {} }; await getOrder({ id: "o_001" }); 1
