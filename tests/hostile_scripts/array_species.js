// value EvalError
class A extends Array { static get [Symbol.species]() { return function () { return new Proxy([], { defineProperty() { throw 1; } }); }; } } new A(1, 2, 3).map(x => x)
