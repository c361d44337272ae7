// value EvalError SyntaxError
var globalThis = 5; var console = 6; let Promise = 7; const Array = 8; function Object() {} 1
