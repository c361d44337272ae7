// EvalError SyntaxError
import.meta
