// Timeout ResultTooLarge MemoryLimit Unserializable
new Proxy([], { get(t, k) { return k === "length" ? 4294967295 : 1; } })
