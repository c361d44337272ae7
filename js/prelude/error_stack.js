// `error.stack` begins with the name and message, as in V8; QuickJS keeps only the frames.
const { get: framesOf, set: setStack } = ReflectGetOwnPropertyDescriptor(Error.prototype, "stack");
const { get: getStack } = ReflectGetOwnPropertyDescriptor(
  {
    get stack() {
      const frames = ReflectApply(framesOf, this, []);
      return typeof frames === "string" ? unit("values").stackText(this, frames) : frames;
    },
  },
  "stack",
);
ReflectDefineProperty(Error.prototype, "stack", {
  __proto__: null, get: getStack, set: setStack, configurable: true, enumerable: false,
});

// `Error.stackTraceLimit` and `Error.prepareStackTrace`, with the values kept here.
//
// QuickJS holds what is assigned to them in fields of its context. It forgets to free the old limit, and a
// `prepareStackTrace` that is not a function at every error: objects there are leaked, with everything they reach. So it
// gets only what it handles well: a number as limit, a function to prepare a stack.

const guardErrorSetting = (name, initial, accepted) => {
  const { set: nativeSet } = ReflectGetOwnPropertyDescriptor(Error, name);
  let current = initial;
  const accessors = {
    get [name]() {
      return current;
    },
    set [name](value) {
      current = value;
      ReflectApply(nativeSet, Error, [accepted(value)]);
    },
  };
  const { get, set } = ReflectGetOwnPropertyDescriptor(accessors, name);
  ReflectDefineProperty(Error, name, { __proto__: null, get, set, configurable: true, enumerable: false });
  // Gives QuickJS the initial value, or the script's again; returns whether they differ.
  return (isPaused) => {
    ReflectApply(nativeSet, Error, [isPaused ? initial : accepted(current)]);
    return accepted(current) !== initial;
  };
};

// As in V8, errors have no stack while the limit is not a number.
guardErrorSetting("stackTraceLimit", Error.stackTraceLimit, (value) => (typeof value === "number" ? value : 0));
// QuickJS calls `prepareStackTrace` with the errors of its compiler too, which a script could change there. The host has
// it paused to learn what is wrong with the code of an eval.
exports.pausePrepareStackTrace = guardErrorSetting("prepareStackTrace", undefined, (value) =>
  typeof value === "function" ? value : undefined,
);
