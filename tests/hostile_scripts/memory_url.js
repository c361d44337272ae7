// MemoryLimit Timeout value EvalError
new URL("http://x/?" + "a=%20&".repeat(1e6)).searchParams.size
