// Timeout
while (true) {}
