// value
// QuickJS does not free the old limit when a new one is set, and asks the limit for its number at every error.
for (let i = 0; i < 100; i++) Error.stackTraceLimit = { valueOf() { throw this; }, i };
const { set } = Object.getOwnPropertyDescriptor(Error, "stackTraceLimit");
set.call({}, "x".repeat(1000));
set.call(undefined, Symbol("limit"));
try { null.x } catch (error) { if (error.stack !== "") throw new Error(error.stack); }
Error.stackTraceLimit = 1;
1
