// value Unserializable
globalThis
