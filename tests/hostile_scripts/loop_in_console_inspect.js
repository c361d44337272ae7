// Timeout
console.log({ get [Symbol.toStringTag]() { for (;;) {} } }); while (true) {}
