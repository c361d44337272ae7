// value Unserializable
[Math, JSON, Reflect, Atomics]
