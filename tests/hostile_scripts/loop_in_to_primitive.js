// Timeout
`${{ [Symbol.toPrimitive]() { for (;;) {} } }}`
