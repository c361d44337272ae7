// Built-ins that walk a receiver to its `length` and never ask whether to go on: `[].indexOf.call({length: 2 ** 53})`
// would hold its shard for years. Each gets a wrapper that looks at the length first.
//
// A plain array or string tells the truth about its length. Anything else must have it as an own data property, so
// that it cannot change between the look and the walk; a proxy cannot promise even that.

// Longest receiver that is walked. Larger than any array that fits the memory limit of a session by default, and
// walked in a fraction of a second.
const WALK_LENGTH_MAX = 2 ** 24;

const { isView: ArrayBufferIsView } = ArrayBuffer;

const walkable = (receiver) => {
  if (typeof receiver !== "object" || receiver === null) return true;
  if (host.proxyTarget(receiver) !== undefined) return false;
  const length = ReflectGetOwnPropertyDescriptor(receiver, "length");
  if (length !== undefined) return isData(length) && !(length.value > WALK_LENGTH_MAX);
  // Typed arrays have an inherited length, which memory bounds; without any length there is nothing to walk.
  return ArrayBufferIsView(receiver) || receiver.length === undefined;
};

const guardWalk = (name) => {
  const native = Array.prototype[name];
  const walksArguments = name === "concat";
  // A method shorthand has no `prototype` and cannot be constructed, like the built-in that it stands for.
  const guarded = {
    walk() {
      let isWalkable = walkable(this);
      if (walksArguments) for (let i = 0; i < arguments.length; i++) isWalkable &&= walkable(arguments[i]);
      if (!isWalkable) {
        throw new RangeError("Array.prototype." + name + ": the length is not one of a plain array, or over " + WALK_LENGTH_MAX);
      }
      return ReflectApply(native, this, arguments);
    },
  }.walk;
  ReflectDefineProperty(guarded, "name", { __proto__: null, value: name, configurable: true });
  ReflectDefineProperty(guarded, "length", { __proto__: null, value: native.length, configurable: true });
  ReflectDefineProperty(Array.prototype, name, { __proto__: null, value: guarded, writable: true, configurable: true });
};

// The others poll: they call back into the script, or QuickJS asks inside their loop.
const WALKING = [
  "concat", "copyWithin", "flat", "join", "lastIndexOf", "reverse", "shift", "slice", "sort", "toReversed", "toSorted",
  "splice", "toSpliced", "unshift", "with",
];
for (let i = 0; i < WALKING.length; i++) guardWalk(WALKING[i]);
