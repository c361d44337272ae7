// value Timeout MemoryLimit
String.raw({ raw: { length: 2 ** 40 } }).length
