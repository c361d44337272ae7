// Unserializable Timeout StackOverflow EvalError value
const make = () => ({ toJSON() { return make(); } }); make()
