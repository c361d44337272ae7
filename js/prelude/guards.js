// Built-ins that may run for long and never poll: `[].indexOf.call({length: 2 ** 53})` would hold its shard for years.
// Each gets a wrapper that estimates the work first. What is quick goes to the built-in; the rest is done in pieces or
// in JavaScript, by the unit `walks`, where QuickJS polls; a few that no honest script asks for are refused.
//
// A plain array or string reports its true length. Anything else must have it as an own data property, so
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

const checkWalk = (name, length) => {
  if (!(length <= WALK_LENGTH_MAX)) {
    throw new RangeError("Array.prototype." + name + ": the length is not one of a plain array, or over " + WALK_LENGTH_MAX);
  }
};

// A method shorthand has no `prototype` and cannot be constructed, like the built-in that it stands for.
const guardWalk = (name) => {
  const native = Array.prototype[name];
  const walksArguments = name === "concat";
  const guarded = {
    walk() {
      let length = walkLength(this);
      if (walksArguments) for (let i = 0; i < arguments.length; i++) length += walkLength(arguments[i]);
      checkWalk(name, length);
      return ReflectApply(native, this, arguments);
    },
  }.walk;
  ReflectDefineProperty(guarded, "name", { __proto__: null, value: name, configurable: true });
  ReflectDefineProperty(guarded, "length", { __proto__: null, value: native.length, configurable: true });
  defineHidden(Array.prototype, name, guarded);
};

// The others poll: they call back into the script, or QuickJS asks inside their loop.
const WALKING = [
  "concat", "copyWithin", "join", "reverse", "shift", "slice", "toLocaleString", "toReversed", "splice", "toSpliced",
  "unshift", "with",
];
for (let i = 0; i < WALKING.length; i++) guardWalk(WALKING[i]);

// Natives that the guards and the unit `walks` finish with.
const arrays = { __proto__: null };
const texts = { __proto__: null };
core.texts = texts;
core.SEARCH_COST_MAX = SEARCH_COST_MAX;
core.NORMALIZE_LENGTH_MAX = NORMALIZE_LENGTH_MAX;

// Sorting compares texts natively: two of megabytes, many times over, without a poll. Such are compared in JavaScript.
const sort = (name, list, compare) => {
  const length = walkLength(list);
  checkWalk(name, length);
  if (compare !== undefined) return arrays[name](list, compare);
  for (let i = 0; i < length; i++) {
    const item = list[i];
    if (typeof item === "string" ? item.length > COMPARE_LENGTH_MAX : isObject(item)) {
      return arrays[name](list, unit("walks").compareTexts);
    }
  }
  return arrays[name](list);
};

// The default of a last parameter keeps it out of the function's `length`, which is that of the built-in.
const guardedArrays = {
  __proto__: null,
  sort(compare) {
    return sort("sort", this, compare);
  },
  toSorted(compare) {
    return sort("toSorted", this, compare);
  },
  includes(item, from = undefined) {
    const isLong = typeof item === "string" && item.length > COMPARE_LENGTH_MAX;
    return isLong ? unit("walks").includes(this, item, from) : arrays.includes(this, item, from);
  },
  indexOf(item, from = undefined) {
    const isLong = typeof item === "string" && item.length > COMPARE_LENGTH_MAX;
    return isLong ? unit("walks").indexOf(this, item, from) : arrays.indexOf(this, item, from);
  },
  lastIndexOf(item, from = undefined) {
    const isLong = typeof item === "string" && item.length > COMPARE_LENGTH_MAX;
    if (isLong) return unit("walks").lastIndexOf(this, item, arguments.length > 1 ? from : Infinity);
    checkWalk("lastIndexOf", walkLength(this));
    return arguments.length > 1 ? arrays.lastIndexOf(this, item, from) : arrays.lastIndexOf(this, item);
  },
  // The walk of these goes on inside what they find, so no length is known ahead.
  flat(depth = undefined) {
    return unit("walks").flat(this, depth);
  },
  flatMap(map, self = undefined) {
    return unit("walks").flatMap(this, map, self);
  },
};

// A pattern that is an object says itself how texts are parted.
const partText = (name, symbol, text, pattern, second) => {
  if (typeof text === "string" && isObject(pattern)) {
    const method = pattern[symbol];
    if (method !== undefined && method !== null) return ReflectApply(method, pattern, [text, second]);
  }
  return unit("walks").partText(name, symbol, text, pattern, second);
};
const { replace: SymbolReplace, split: SymbolSplit } = Symbol;

// Scripts call these all the time, so the check is written out in each: a call of a helper would double its cost.
const guardedTexts = {
  __proto__: null,
  includes(needle, position = undefined) {
    if (typeof this === "string" && typeof needle === "string" && this.length * needle.length <= SEARCH_COST_MAX) {
      return texts.includes(this, needle, position);
    }
    return unit("walks").searchText("includes", this, needle, position);
  },
  indexOf(needle, position = undefined) {
    if (typeof this === "string" && typeof needle === "string" && this.length * needle.length <= SEARCH_COST_MAX) {
      return StringIndexOf(this, needle, position);
    }
    return unit("walks").searchText("indexOf", this, needle, position);
  },
  lastIndexOf(needle, position = undefined) {
    if (typeof this === "string" && typeof needle === "string" && this.length * needle.length <= SEARCH_COST_MAX) {
      return texts.lastIndexOf(this, needle, position);
    }
    return unit("walks").searchText("lastIndexOf", this, needle, position);
  },
  replace(pattern, replacement) {
    if (typeof this === "string" && typeof pattern === "string" && this.length * pattern.length <= SEARCH_COST_MAX) {
      return texts.replace(this, pattern, replacement);
    }
    return partText("replace", SymbolReplace, this, pattern, replacement);
  },
  replaceAll(pattern, replacement) {
    if (typeof this === "string" && typeof pattern === "string" && this.length * pattern.length <= SEARCH_COST_MAX) {
      return texts.replaceAll(this, pattern, replacement);
    }
    return unit("walks").partText("replaceAll", SymbolReplace, this, pattern, replacement);
  },
  split(separator, limit) {
    if (typeof this === "string" && typeof separator === "string" && this.length * separator.length <= SEARCH_COST_MAX) {
      return texts.split(this, separator, limit);
    }
    return partText("split", SymbolSplit, this, separator, limit);
  },
  localeCompare(that) {
    if (
      typeof this === "string" && this.length <= NORMALIZE_LENGTH_MAX &&
      typeof that === "string" && that.length <= NORMALIZE_LENGTH_MAX
    ) {
      return texts.localeCompare(this, that);
    }
    return unit("walks").localeCompare(this, that);
  },
  normalize(form = undefined) {
    const isShort = typeof this === "string" && this.length <= NORMALIZE_LENGTH_MAX;
    if (isShort && (form === undefined || typeof form === "string")) return texts.normalize(this, form);
    return unit("walks").normalize(this, form);
  },
};

const replaceBuiltIns = (object, natives, guarded) => {
  for (const name in guarded) {
    natives[name] = uncurry(object[name]);
    defineHidden(object, name, guarded[name]);
  }
};
replaceBuiltIns(Array.prototype, arrays, guardedArrays);
replaceBuiltIns(String.prototype, texts, guardedTexts);
defineHidden(String, "raw", { raw(template) { return unit("walks").raw(template, arguments); } }.raw);
