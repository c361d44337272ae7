// Timeout
({ toJSON() { for (;;) {} } })
