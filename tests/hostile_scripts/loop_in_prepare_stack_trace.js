// Timeout EvalError value
Error.prepareStackTrace = () => { for (;;) {} }; throw new Error("x");
