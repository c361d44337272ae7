// StackOverflow EvalError
class A { x = new A(); } new A()
