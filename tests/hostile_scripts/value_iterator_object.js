// value Unserializable
[1, 2, 3][Symbol.iterator]()
