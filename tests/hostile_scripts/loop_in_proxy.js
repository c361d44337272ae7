// Timeout
new Proxy({}, { ownKeys() { for (;;) {} } })
