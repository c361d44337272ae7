// value EvalError
[getOrder.constructor("return typeof process")(), getOrder.constructor.constructor("return typeof require")(), (async () => {}).constructor("return typeof Deno")() instanceof Promise]
