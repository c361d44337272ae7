// Timeout
for (;;) { try { for (;;) {} } catch {} }
