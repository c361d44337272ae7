// Deadlock
await new Promise(() => {})
