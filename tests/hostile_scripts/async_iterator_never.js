// Deadlock Timeout
for await (const x of { [Symbol.asyncIterator]() { return { next() { return new Promise(() => {}); } }; } }) ;
