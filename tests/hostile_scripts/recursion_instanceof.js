// StackOverflow EvalError
class A { static [Symbol.hasInstance](x) { return x instanceof A; } } 1 instanceof A
