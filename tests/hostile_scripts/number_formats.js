// value EvalError
[1e21.toFixed(2), (1.5).toString(36), Number.MAX_VALUE.toString(2).length, (1e-323).toPrecision(100)]
