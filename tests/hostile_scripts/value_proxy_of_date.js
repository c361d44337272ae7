// value Unserializable
new Proxy(new Date(), {})
