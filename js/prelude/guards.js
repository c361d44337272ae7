// Built-ins that may run for long and never poll: `[].indexOf.call({length: 2 ** 53})` would hold its shard for years.
// Each gets a wrapper that estimates the work first. What is quick goes to the built-in; the rest is done in pieces or
// in JavaScript, by the unit `walks`, where QuickJS polls; a few that no honest script asks for are refused.
//
// A plain array or string tells the truth about its length. Anything else must have it as an own data property, so
// that it cannot change between the look and the walk; a proxy cannot promise even that.

// Longest receiver that is walked. Larger than any array that fits the memory limit of a session by default, and
// walked in a fraction of a second.
const WALK_LENGTH_MAX = 2 ** 24;

const { isView: ArrayBufferIsView } = ArrayBuffer;

// Characters that one search of a text compares at most: some hundredths of a second.
const SEARCH_COST_MAX = 2 ** 26;

// Longest text that is normalised in one piece. Sorting its marks takes a square of that, some hundredths of a second.
const NORMALIZE_LENGTH_MAX = 4096;

// Longest text that an array is searched for, or sorted by, without polls between two comparisons.
const COMPARE_LENGTH_MAX = 1024;

// How far a receiver is walked; Infinity when that cannot be said.
const walkLength = (receiver) => {
  if (typeof receiver !== "object" || receiver === null) return 0;
  if (host.proxyTarget(receiver) !== undefined) return Infinity;
  const length = ReflectGetOwnPropertyDescriptor(receiver, "length");
  if (length !== undefined) {
    if (!isData(length)) return Infinity;
    return length.value > 0 ? +length.value : 0;
  }
  // Typed arrays have an inherited length, which memory bounds; without any length there is nothing to walk.
  return ArrayBufferIsView(receiver) || receiver.length === undefined ? 0 : Infinity;
};

// Puts `guarded` in the place of a built-in. It is a method shorthand, which like a built-in has no `prototype` and
// cannot be constructed.
const replaceBuiltIn = (object, name, guarded) => {
  ReflectDefineProperty(guarded, "name", { __proto__: null, value: name, configurable: true });
  ReflectDefineProperty(guarded, "length", { __proto__: null, value: object[name].length, configurable: true });
  defineHidden(object, name, guarded);
};

const guardWalk = (name) => {
  const native = Array.prototype[name];
  const walksArguments = name === "concat";
  const guarded = {
    walk() {
      let length = walkLength(this);
      if (walksArguments) for (let i = 0; i < arguments.length; i++) length += walkLength(arguments[i]);
      if (!(length <= WALK_LENGTH_MAX)) {
        throw new RangeError("Array.prototype." + name + ": the length is not one of a plain array, or over " + WALK_LENGTH_MAX);
      }
      return ReflectApply(native, this, arguments);
    },
  }.walk;
  replaceBuiltIn(Array.prototype, name, guarded);
};

// The others poll: they call back into the script, or QuickJS asks inside their loop.
const WALKING = [
  "concat", "copyWithin", "join", "lastIndexOf", "reverse", "shift", "slice", "sort", "toLocaleString", "toReversed",
  "toSorted", "splice", "toSpliced", "unshift", "with",
];
for (let i = 0; i < WALKING.length; i++) guardWalk(WALKING[i]);

// Sorting compares texts natively: two of megabytes, many times over, without a poll. Such are compared in JavaScript.
const hasLongTexts = (list) => {
  const length = walkLength(list);
  // What is longer is refused anyway.
  if (!(length <= WALK_LENGTH_MAX)) return false;
  for (let i = 0; i < length; i++) {
    const item = list[i];
    if (typeof item === "string" ? item.length > COMPARE_LENGTH_MAX : isObject(item)) return true;
  }
  return false;
};

const guardSort = (name) => {
  const native = Array.prototype[name];
  const guarded = {
    sort(compare) {
      const isPlain = compare !== undefined || !hasLongTexts(this);
      return ReflectApply(native, this, [isPlain ? compare : unit("walks").compareTexts]);
    },
  }.sort;
  replaceBuiltIn(Array.prototype, name, guarded);
};
guardSort("sort");
guardSort("toSorted");

const guardSearch = (name) => {
  const native = Array.prototype[name];
  const guarded = {
    search(item) {
      const isLong = typeof item === "string" && item.length > COMPARE_LENGTH_MAX;
      return isLong ? unit("walks")[name](this, arguments) : ReflectApply(native, this, arguments);
    },
  }.search;
  replaceBuiltIn(Array.prototype, name, guarded);
};
guardSearch("includes");
guardSearch("indexOf");
guardSearch("lastIndexOf");

// Their walk goes on inside what they find, so no length is known ahead.
replaceBuiltIn(Array.prototype, "flat", { flat(depth) { return unit("walks").flat(this, depth); } }.flat);
replaceBuiltIn(Array.prototype, "flatMap", { flatMap(map, self) { return unit("walks").flatMap(this, map, self); } }.flatMap);
replaceBuiltIn(String, "raw", { raw(template) { return unit("walks").raw(template, arguments); } }.raw);

// The natives that the unit finishes with.
core.texts = { __proto__: null };

const guardTextSearch = (name) => {
  const native = (core.texts[name] = uncurry(String.prototype[name]));
  const guarded = {
    search(needle, position) {
      if (typeof this === "string" && typeof needle === "string" && this.length * needle.length <= SEARCH_COST_MAX) {
        return native(this, needle, position);
      }
      return unit("walks").searchText(name, this, needle, position);
    },
  }.search;
  replaceBuiltIn(String.prototype, name, guarded);
};
guardTextSearch("includes");
guardTextSearch("indexOf");
guardTextSearch("lastIndexOf");

const guardTextParts = (name, symbol) => {
  const native = (core.texts[name] = uncurry(String.prototype[name]));
  const guarded = {
    parts(pattern, second) {
      if (typeof this === "string") {
        if (typeof pattern === "string") {
          if (this.length * pattern.length <= SEARCH_COST_MAX) return native(this, pattern, second);
        } else if (isObject(pattern) && name !== "replaceAll") {
          const method = pattern[symbol];
          if (method !== undefined && method !== null) return ReflectApply(method, pattern, [this, second]);
        }
      }
      return unit("walks").partText(name, symbol, this, pattern, second);
    },
  }.parts;
  replaceBuiltIn(String.prototype, name, guarded);
};
guardTextParts("replace", Symbol.replace);
guardTextParts("replaceAll", Symbol.replace);
guardTextParts("split", Symbol.split);

const guardNormalization = (name) => {
  const native = (core.texts[name] = uncurry(String.prototype[name]));
  const guarded = {
    normalize(argument) {
      const isShort = typeof this === "string" && this.length <= NORMALIZE_LENGTH_MAX;
      if (isShort && (typeof argument === "string" ? argument.length <= NORMALIZE_LENGTH_MAX : argument === undefined)) {
        return native(this, argument);
      }
      return unit("walks")[name](this, argument);
    },
  }.normalize;
  replaceBuiltIn(String.prototype, name, guarded);
};
guardNormalization("localeCompare");
guardNormalization("normalize");

core.SEARCH_COST_MAX = SEARCH_COST_MAX;
core.NORMALIZE_LENGTH_MAX = NORMALIZE_LENGTH_MAX;
