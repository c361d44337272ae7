// EvalError TooDeep Timeout TooManyCalls
let i = { binding: "echo", input: 1 }; for (let n = 0; n < 40; n++) i = { binding: "relay", input: i }; await relay(i)
