// value Unserializable
[new WeakMap(), new WeakSet(), new WeakRef({})]
