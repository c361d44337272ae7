// Timeout
({ get a() { for (;;) {} } })
