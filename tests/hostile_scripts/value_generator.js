// value Unserializable
(function* () { for (;;) yield 1; })()
