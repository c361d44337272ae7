// Prints what is no message, and ends.
console.log('Welcome to my program!\n{"jsonrpc": "2.0"');
