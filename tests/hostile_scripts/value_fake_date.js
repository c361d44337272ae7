// value Unserializable
Object.create(Date.prototype)
