// Timeout Unserializable value
new Proxy({a: 1}, { get() { for (;;) {} } })
