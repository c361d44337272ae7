// EvalError TooManyCalls Timeout
for (let i = 0; i < 5000; i++) await echo(i);
