// Timeout EvalError Unserializable
await echo({ get a() { for (;;) {} } })
