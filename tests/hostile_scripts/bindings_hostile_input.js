// value EvalError Unserializable Timeout
await echo({ get a() { throw new Error("mine"); } })
