// ResultTooLarge MemoryLimit Timeout value EvalError lost
"\u0001".repeat(2 << 20)
