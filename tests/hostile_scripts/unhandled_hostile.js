// value
Promise.reject(new Proxy({}, { get() { throw 1; } })); Promise.reject({ get stack() { for (;;) {} } }); 1
