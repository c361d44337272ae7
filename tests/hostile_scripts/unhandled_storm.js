// value MemoryLimit Timeout
for (let i = 0; i < 100000; i++) Promise.reject(i); 1
