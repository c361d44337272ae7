// value
l: for (;;) { try { break l; } finally { } } 1
