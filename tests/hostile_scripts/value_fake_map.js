// value Unserializable
Object.create(Map.prototype)
