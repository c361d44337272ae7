// value EvalError SyntaxError
const undefined1 = 1; let NaN1 = 2; var Infinity = 5; 1
