// TooManyRefs ResultTooLarge MemoryLimit Timeout
Array.from({ length: 20000 }, () => () => 1)
