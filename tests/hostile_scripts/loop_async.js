// Timeout
for (;;) await null;
