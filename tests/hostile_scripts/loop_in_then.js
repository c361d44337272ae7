// Timeout value
({ then() { for (;;) {} } })
