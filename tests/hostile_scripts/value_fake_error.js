// value Unserializable
const e = Object.create(Error.prototype); e
