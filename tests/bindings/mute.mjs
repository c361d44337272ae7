// Reads and says nothing.
process.stdin.resume();
