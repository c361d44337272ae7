// value Unserializable
class M extends Map { get size() { throw 1; } [Symbol.iterator]() { throw 2; } entries() { throw 3; } forEach() { throw 4; } } new M([[1, 2]])
