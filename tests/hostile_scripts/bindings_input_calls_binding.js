// value EvalError
await echo({ get a() { echo(1); return 2; } })
