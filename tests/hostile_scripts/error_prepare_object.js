// value
// QuickJS leaks a `prepareStackTrace` that is not a function at every error.
Error.prepareStackTrace = { big: new Array(1000).fill({}) };
for (let i = 0; i < 100; i++) try { null.x } catch {}
class Own extends Error {}
Own.prepareStackTrace = [];
new Own("x");
1
