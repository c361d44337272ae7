// value Unserializable
[Object(1), Object("s"), Object(true), Object(1n)]
