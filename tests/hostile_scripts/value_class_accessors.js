// value
class A { #x = 1; get x() { return this.#x; } y = 2; } new A()
