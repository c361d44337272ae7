// value Unserializable EvalError
new Proxy({}, { ownKeys() { return ["a", "b"]; }, getOwnPropertyDescriptor() { return { enumerable: true, configurable: true, value: 1 }; }, get() { return 2; } })
