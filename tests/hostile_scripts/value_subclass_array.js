// value Unserializable
class A extends Array { get length() { return 5; } } A.from([1, 2])
