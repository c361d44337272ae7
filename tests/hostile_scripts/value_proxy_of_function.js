// value Unserializable
new Proxy(() => 1, {})
