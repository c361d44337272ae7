// value
(0, eval)("var fromEval = 1"); new Function("return this")().fromEval
