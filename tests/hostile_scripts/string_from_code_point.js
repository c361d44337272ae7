// EvalError
String.fromCodePoint(0x110000)
