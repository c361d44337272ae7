// value Unserializable
new Proxy([1, 2, 3], {})
