// setTimeout, setInterval and their clearing. The host keeps the clock and says when an id is due; the callbacks
// stay here, out of the host's reach and of the script's.

const TIMER_DELAY_MS_MAX = 2 ** 31 - 1;

const timers = new Map();
let timerIdLast = 0;

// Delays that make no sense become the shortest one, as in browsers and Node.
const timerDelay = (value) => {
  const delay = +value;
  return delay >= 1 && delay <= TIMER_DELAY_MS_MAX ? MathTrunc(delay) : 1;
};

const startTimer = (where, callback, delay, args, repeats) => {
  if (typeof callback !== "function") throw new TypeError(where + ": the callback must be a function");
  const timer = { __proto__: null, callback, delay: timerDelay(delay), args, repeats };
  // The host may refuse, so an id is used up only once the timer exists.
  host.setTimer(timerIdLast + 1, timer.delay);
  timerIdLast += 1;
  MapSet(timers, timerIdLast, timer);
  return timerIdLast;
};

const clearTimer = (id) => {
  if (typeof id === "string") id = +id;
  if (MapDelete(timers, id)) host.clearTimer(id);
};

defineGlobal("setTimeout", function setTimeout(callback, delay, ...args) {
  return startTimer("setTimeout", callback, delay, args, false);
});
defineGlobal("setInterval", function setInterval(callback, delay, ...args) {
  return startTimer("setInterval", callback, delay, args, true);
});
defineGlobal("setImmediate", function setImmediate(callback, ...args) {
  return startTimer("setImmediate", callback, 0, args, false);
});
defineGlobal("clearImmediate", function clearImmediate(id) {
  clearTimer(id);
});
defineGlobal("clearTimeout", function clearTimeout(id) {
  clearTimer(id);
});
defineGlobal("clearInterval", function clearInterval(id) {
  clearTimer(id);
});

// Runs the callback of a due timer; what it throws goes to the host. An interval is armed again only afterwards,
// so that a callback slower than its own period cannot pile up.
exports.fireTimer = (id) => {
  const timer = MapGet(timers, id);
  if (timer === undefined) return;
  if (!timer.repeats) MapDelete(timers, id);
  try {
    ReflectApply(timer.callback, globalThis, timer.args);
  } finally {
    if (timer.repeats && MapHas(timers, id)) host.setTimer(id, timer.delay);
  }
};

exports.timerCount = () => MapSize(timers);
