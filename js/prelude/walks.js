// What the guards do in pieces or in JavaScript, so that QuickJS polls in between. Each follows the specification of the
// built-in for which it stands, conversions of its arguments included.

// Taken from the core.
const {
  Array, ArrayIsArray, ArraySlice, MathFloor, MathMax, MathMin, NORMALIZE_LENGTH_MAX, Object, RangeError, ReflectApply,
  ReflectDefineProperty, ReflectSetPrototypeOf, RegExp, RegExpExec, RegExpSource, SEARCH_COST_MAX, String,
  StringCharCodeAt, StringSlice, Symbol, TypeError, isObject, newList, texts,
} = core;
const { match: SymbolMatch, species: SymbolSpecies } = Symbol;
const { prototype: ArrayPrototype } = Array;

// Longest part of a needle that is searched for natively; the rest is compared in pieces of that length.
const PIECE_LENGTH = 4096;

// Most characters without a place to cut that are normalised in one piece. Far more marks than any script writes on
// one letter, and their sorting takes a fraction of a second.
const MARKS_MAX = 16384;

const LENGTH_MAX = 2 ** 53 - 1;

const toText = (value) => {
  if (typeof value === "symbol") throw new TypeError("cannot convert symbol to string");
  return String(value);
};

const toInteger = (value) => {
  const number = +value;
  return number !== number ? 0 : number < 0 ? -MathFloor(-number) : MathFloor(number);
};

const toLength = (value) => MathMin(MathMax(toInteger(value), 0), LENGTH_MAX);

const requireReceiver = (self, name) => {
  if (self === undefined || self === null) {
    throw new TypeError("String.prototype." + name + ": cannot convert null or undefined to object");
  }
  return toText(self);
};

// Arrays.

exports.compareTexts = (left, right) => {
  const a = toText(left);
  const b = toText(right);
  return a < b ? -1 : a > b ? 1 : 0;
};

// The index at which a search begins.
const startOf = (from, length) => {
  const start = toInteger(from);
  return start < 0 ? MathMax(length + start, 0) : start;
};

exports.indexOf = (self, item, from) => {
  const list = Object(requireObject(self, "indexOf"));
  const length = toLength(list.length);
  if (length === 0) return -1;
  for (let i = startOf(from, length); i < length; i++) if (list[i] === item && i in list) return i;
  return -1;
};

exports.includes = (self, item, from) => {
  const list = Object(requireObject(self, "includes"));
  const length = toLength(list.length);
  if (length === 0) return false;
  for (let i = startOf(from, length); i < length; i++) if (list[i] === item) return true;
  return false;
};

exports.lastIndexOf = (self, item, from) => {
  const list = Object(requireObject(self, "lastIndexOf"));
  const length = toLength(list.length);
  if (length === 0) return -1;
  const start = toInteger(from);
  for (let i = start < 0 ? length + start : MathMin(start, length - 1); i >= 0; i--) {
    if (list[i] === item && i in list) return i;
  }
  return -1;
};

const append = (target, at, value) => {
  const descriptor = { __proto__: null, value, writable: true, enumerable: true, configurable: true };
  if (!ReflectDefineProperty(target, at, descriptor)) throw new TypeError("cannot define the property " + String(at));
  return at + 1;
};

// With `define`, items become properties as the specification says; without, `target` is a list of ours.
const flatten = (target, start, source, depth, define) => {
  const length = toLength(source.length);
  let at = start;
  for (let i = 0; i < length; i++) {
    const item = source[i];
    if (item === undefined && !(i in source)) continue;
    if (depth > 0 && ArrayIsArray(item)) at = flatten(target, at, item, depth - 1, define);
    else if (define) at = append(target, at, item);
    else target[at++] = item;
  }
  return at;
};

// Whether the receiver's species is that of a plain array. Its result is filled as a list, out of the reach of setters
// on the prototype, and gets its prototype when it is complete.
const isPlain = (list) => ArrayIsArray(list) && list.constructor === Array && Array[SymbolSpecies] === Array;

const emptyLike = (list) => (ArrayIsArray(list) ? ArraySlice(list, 0, 0) : []);

const flattenAs = (list, fill) => {
  const isOurs = isPlain(list);
  const target = isOurs ? newList() : emptyLike(list);
  fill(target, !isOurs);
  if (isOurs) ReflectSetPrototypeOf(target, ArrayPrototype);
  return target;
};

exports.flat = (self, depth) => {
  const list = Object(requireObject(self, "flat"));
  const most = depth === undefined ? 1 : toInteger(depth);
  return flattenAs(list, (target, define) => flatten(target, 0, list, most, define));
};

exports.flatMap = (self, map, receiver) => {
  const list = Object(requireObject(self, "flatMap"));
  const length = toLength(list.length);
  if (typeof map !== "function") throw new TypeError("not a function");
  return flattenAs(list, (target, define) => {
    let at = 0;
    for (let i = 0; i < length; i++) {
      if (!(i in list)) continue;
      const item = ReflectApply(map, receiver, [list[i], i, list]);
      if (ArrayIsArray(item)) at = flatten(target, at, item, 0, define);
      else if (define) at = append(target, at, item);
      else target[at++] = item;
    }
  });
};

const requireObject = (self, name) => {
  if (self === undefined || self === null) {
    throw new TypeError("Array.prototype." + name + ": cannot convert null or undefined to object");
  }
  return self;
};

exports.raw = (template, args) => {
  const literals = Object(requireObject(Object(requireObject(template, "raw")).raw, "raw"));
  const length = toLength(literals.length);
  let text = "";
  for (let i = 0; i < length; i++) {
    text += toText(literals[i]);
    if (i + 1 < length && i + 1 < args.length) text += toText(args[i + 1]);
  }
  return text;
};

// Texts.

const isCheap = (text, needle) => text.length * needle.length <= SEARCH_COST_MAX;

// Whether `needle`, of which the first piece is known to be at `at`, is there as a whole.
const continues = (text, at, needle) => {
  for (let i = PIECE_LENGTH; i < needle.length; i += PIECE_LENGTH) {
    const end = MathMin(i + PIECE_LENGTH, needle.length);
    if (StringSlice(text, at + i, at + end) !== StringSlice(needle, i, end)) return false;
  }
  return true;
};

const find = (text, needle, from) => {
  if (isCheap(text, needle)) return texts.indexOf(text, needle, from);
  const last = text.length - needle.length;
  const head = StringSlice(needle, 0, PIECE_LENGTH);
  const step = MathFloor(SEARCH_COST_MAX / head.length);
  for (let start = from; start <= last; ) {
    const end = MathMin(start + step, last + 1);
    const found = texts.indexOf(StringSlice(text, start, end + head.length - 1), head, 0);
    if (found === -1) {
      start = end;
    } else if (continues(text, start + found, needle)) {
      return start + found;
    } else {
      start += found + 1;
    }
  }
  return -1;
};

const findLast = (text, needle, from) => {
  if (isCheap(text, needle)) return texts.lastIndexOf(text, needle, from);
  const head = StringSlice(needle, 0, PIECE_LENGTH);
  const step = MathFloor(SEARCH_COST_MAX / head.length);
  for (let end = MathMin(from, text.length - needle.length) + 1; end > 0; ) {
    const start = MathMax(end - step, 0);
    const found = texts.lastIndexOf(StringSlice(text, start, end + head.length - 1), head, Infinity);
    if (found === -1) {
      end = start;
    } else if (continues(text, start + found, needle)) {
      return start + found;
    } else {
      end = start + found;
    }
  }
  return -1;
};

const isRegExp = (value) => {
  if (!isObject(value)) return false;
  const matcher = value[SymbolMatch];
  if (matcher !== undefined) return !!matcher;
  try {
    RegExpSource(value);
    return true;
  } catch {
    return false;
  }
};

exports.searchText = (name, self, search, position) => {
  const text = requireReceiver(self, name);
  if (name === "includes" && isRegExp(search)) throw new TypeError("regexp not supported");
  const needle = toText(search);
  if (name === "lastIndexOf") {
    const from = +position;
    return findLast(text, needle, from !== from ? Infinity : MathMax(toInteger(from), 0));
  }
  const from = MathMin(MathMax(toInteger(position), 0), text.length);
  const found = find(text, needle, from);
  return name === "includes" ? found !== -1 : found;
};

// What `$$`, `$&`, `$\u0060` and `$'` in a replacement stand for.
const substitute = (template, text, at, matched) => {
  let result = "";
  let from = 0;
  for (let dollar; (dollar = find(template, "$", from)) !== -1 && dollar + 1 < template.length; ) {
    const sign = template[dollar + 1];
    let value;
    if (sign === "$") value = "$";
    else if (sign === "&") value = matched;
    else if (sign === "`") value = StringSlice(text, 0, at);
    else if (sign === "'") value = StringSlice(text, at + matched.length);
    result += StringSlice(template, from, dollar);
    result += value === undefined ? "$" : value;
    from = value === undefined ? dollar + 1 : dollar + 2;
  }
  return result + StringSlice(template, from);
};

const replaceText = (text, needle, replacement, isAll) => {
  const isFunction = typeof replacement === "function";
  const template = isFunction ? undefined : toText(replacement);
  if (isCheap(text, needle)) {
    return isAll ? texts.replaceAll(text, needle, isFunction ? replacement : template)
      : texts.replace(text, needle, isFunction ? replacement : template);
  }
  // A needle of length 0 is always cheap, so every match moves on.
  let result = "";
  let from = 0;
  for (let at; (at = find(text, needle, from)) !== -1; ) {
    result += StringSlice(text, from, at);
    result += isFunction ? toText(ReflectApply(replacement, undefined, [needle, at, text]))
      : substitute(template, text, at, needle);
    from = at + needle.length;
    if (!isAll) break;
  }
  return from === 0 ? text : result + StringSlice(text, from);
};

const splitText = (text, needle, limit) => {
  const most = limit === undefined ? 2 ** 32 - 1 : limit >>> 0;
  const separator = toText(needle);
  if (needle === undefined || isCheap(text, separator)) {
    return texts.split(text, needle === undefined ? undefined : separator, most);
  }
  const parts = [];
  let from = 0;
  for (let at; parts.length < most && (at = find(text, separator, from)) !== -1; from = at + separator.length) {
    append(parts, parts.length, StringSlice(text, from, at));
  }
  if (parts.length < most) append(parts, parts.length, StringSlice(text, from));
  return parts;
};

exports.partText = (name, symbol, self, pattern, second) => {
  if (self === undefined || self === null) return requireReceiver(self, name);
  if (isObject(pattern)) {
    if (name === "replaceAll" && isRegExp(pattern)) {
      const { flags } = pattern;
      if (flags === undefined || flags === null || find(toText(flags), "g", 0) === -1) {
        throw new TypeError("regexp must have the 'g' flag");
      }
    }
    const method = pattern[symbol];
    if (method !== undefined && method !== null) return ReflectApply(method, pattern, [self, second]);
  }
  const text = toText(self);
  if (name === "split") return splitText(text, pattern, second);
  return replaceText(text, toText(pattern), second, name === "replaceAll");
};

// A character before which a text may be cut for normalisation: it is not a mark, and no character before it combines
// with it. The vowels and finals of Hangul, the half-width sound marks and Kirat Rai do.
const CUT = new RegExp("[^\\p{M}\\u1160-\\u11ff\\ud7b0-\\ud7ff\\uff9e\\uff9f\\u{16d40}-\\u{16d7f}\\udc00-\\udfff]", "gu");

const normalizeText = (text, form) => {
  if (text.length <= NORMALIZE_LENGTH_MAX) return texts.normalize(text, form);
  let result = "";
  for (let start = 0; start < text.length; ) {
    let end = start + NORMALIZE_LENGTH_MAX;
    if (end < text.length) {
      // Never between the halves of a character.
      const half = StringCharCodeAt(text, end);
      if (half >= 0xdc00 && half <= 0xdfff) end++;
      CUT.lastIndex = 0;
      const found = RegExpExec(CUT, StringSlice(text, end, end + MARKS_MAX));
      if (found === null && end + MARKS_MAX < text.length) {
        throw new RangeError("String.prototype.normalize: more than " + MARKS_MAX + " combining marks in a row");
      }
      end = found === null ? text.length : end + found.index;
    }
    result += texts.normalize(StringSlice(text, start, end), form);
    start = end;
  }
  return result;
};

exports.normalize = (self, form) => {
  const text = requireReceiver(self, "normalize");
  const wanted = form === undefined ? "NFC" : toText(form);
  // An unknown form is the native's to refuse.
  texts.normalize("", wanted);
  return normalizeText(text, wanted);
};

exports.localeCompare = (self, that) => {
  const text = requireReceiver(self, "localeCompare");
  const other = toText(that);
  return texts.localeCompare(normalizeText(text, "NFC"), normalizeText(other, "NFC"));
};
