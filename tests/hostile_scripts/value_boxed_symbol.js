// value Unserializable
Object(Symbol("x"))
