// StackOverflow EvalError
class A { constructor() { new this.constructor(); } } new A()
