// Prints a line that is not a message, and exits.
console.log('Welcome to my program!\n{"jsonrpc": "2.0"');
