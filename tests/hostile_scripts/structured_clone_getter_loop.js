// Timeout EvalError
structuredClone({ get a() { for (;;) {} } })
