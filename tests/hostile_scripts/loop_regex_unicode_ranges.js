// Timeout MemoryLimit SyntaxError EvalError StackOverflow value
for (;;) new RegExp("[\\p{L}\\p{N}]{1,200}", "iu").test("\u{1F600}".repeat(1000))
