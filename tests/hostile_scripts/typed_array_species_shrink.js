// value EvalError
class U extends Uint8Array { static get [Symbol.species]() { return function (n) { return new Uint8Array(1); }; } } new U(100).map(x => 1)
