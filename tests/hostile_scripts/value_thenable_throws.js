// EvalError Unserializable
({ get then() { throw new Error("no"); } })
