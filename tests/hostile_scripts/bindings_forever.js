// Timeout
await forever({})
