// value Timeout
for (let i = 0; i < 100000; i++) console.group?.("x"); console.log("deep"); 1
