// value EvalError
const P = Object.getPrototypeOf(getOrder); try { P.call = () => 5; P.then = () => 5; } catch {} try { getOrder.prototype = 5; getOrder.name = "x"; getOrder.extra = 1; } catch {} [typeof getOrder, getOrder.extra]
