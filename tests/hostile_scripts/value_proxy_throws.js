// Unserializable
new Proxy({}, { ownKeys() { throw new Error("no"); } })
