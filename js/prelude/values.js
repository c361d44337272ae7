// What the conversion of values needs of JavaScript: the kinds of object that have a tag on the wire.

const {
  Array, ArrayBufferByteLength, ArrayBufferIsView, ArrayIsArray, BigInt, BigIntToString, Boolean, DataViewBuffer,
  DOMExceptionName, DataViewByteLength, DataViewByteOffset, Date, DateGetTime, DateToISOString, Error, ErrorIsError,
  ErrorStack, EvalError, Function, host, isData,
  IteratorPrototype, Map, MapEntries, MapIteratorNext, MapSet, Number, Object, ObjectHasOwn, Promise, RangeError,
  ReferenceError, ReflectApply, ReflectDefineProperty, ReflectGetOwnPropertyDescriptor, ReflectGetPrototypeOf,
  ReflectOwnKeys, RegExp, RegExpDotAll, RegExpGlobal, RegExpHasIndices, RegExpIgnoreCase, RegExpMultiline, RegExpSource,
  RegExpSticky, RegExpUnicode, RegExpUnicodeSets, Set, SetAdd, SetIteratorNext,
  SetValues, String, StringStartsWith, StringToWellFormed, Symbol, SyntaxError, TypeError, TypedArrayBuffer, TypedArrayByteLength,
  TypedArrayByteOffset, TypedArrayName, URIError, WeakMap, WeakSet, WeakSetHas, bindingErrors, newList, unit,
} = core;

exports.isArray = ArrayIsArray;
exports.bigintText = (value) => BigIntToString(value);
exports.wellFormed = (text) => StringToWellFormed(text);

// undefined for an invalid date, which has no form on the wire.
exports.dateText = (date) => {
  const time = DateGetTime(date);
  return time === time ? DateToISOString(new Date(time)) : undefined;
};
exports.makeDate = (text) => {
  const date = new Date(text);
  return DateGetTime(date) === DateGetTime(date) ? date : undefined;
};

exports.makeBigInt = (digits) => BigInt(digits);

exports.makeMap = () => new Map();
exports.mapPut = (map, key, value) => void MapSet(map, key, value);
exports.mapIterator = (map) => MapEntries(map);
exports.mapNext = (iterator) => {
  const step = MapIteratorNext(iterator);
  return step.done ? undefined : step.value;
};

exports.makeSet = () => new Set();
exports.setPut = (set, value) => void SetAdd(set, value);
exports.setIterator = (set) => SetValues(set);
exports.setNext = (iterator) => {
  const step = SetIteratorNext(iterator);
  return step.done ? undefined : [step.value];
};

// [buffer, offset, length] of a buffer or a view, undefined when it is detached or shared.
exports.viewParts = (value) => {
  try {
    if (!ArrayBufferIsView(value)) return [value, 0, ArrayBufferByteLength(value)];
    if (TypedArrayName(value) === undefined) {
      return [DataViewBuffer(value), DataViewByteOffset(value), DataViewByteLength(value)];
    }
    return [TypedArrayBuffer(value), TypedArrayByteOffset(value), TypedArrayByteLength(value)];
  } catch {
    return undefined;
  }
};

exports.regexpText = (value) => {
  let flags = "";
  for (const flag in regexpFlags) if (regexpFlags[flag](value)) flags += flag;
  return "/" + RegExpSource(value) + "/" + flags;
};
const regexpFlags = {
  __proto__: null, d: RegExpHasIndices, g: RegExpGlobal, i: RegExpIgnoreCase, m: RegExpMultiline, s: RegExpDotAll,
  u: RegExpUnicode, v: RegExpUnicodeSets, y: RegExpSticky,
};

// Names and values in turn of the getters of an object's classes; undefined for an object without a class of the script.
const GETTERS_MAX = 64;
exports.gettersOf = (value) => {
  const parts = newList();
  let holder = ReflectGetPrototypeOf(value);
  for (let i = 0; i < 16 && holder !== null && !WeakSetHas(builtinPrototypes, holder); i++) {
    if (host.proxyTarget(holder) !== undefined) break;
    const keys = ReflectOwnKeys(holder);
    for (let k = 0; k < keys.length && parts.length < 2 * GETTERS_MAX; k++) {
      const descriptor = ReflectGetOwnPropertyDescriptor(holder, keys[k]);
      if (typeof keys[k] !== "string" || keys[k] === "__proto__" || isData(descriptor)) continue;
      if (descriptor.get === undefined) continue;
      parts[parts.length] = keys[k];
      parts[parts.length] = ReflectApply(descriptor.get, value, []);
    }
    holder = ReflectGetPrototypeOf(holder);
  }
  return parts.length === 0 ? undefined : parts;
};

// Depth and number of objects in which promises are awaited; those further in are refused with their path.
const AWAITED_DEPTH_MAX = 16;
const AWAITED_OBJECTS_MAX = 10_000;
const ObjectPrototype = Object.prototype;
const awaitInside = async (value, depth, seen) => {
  if (host.isPromise(value)) value = await value;
  if (value === null || typeof value !== "object" || depth > AWAITED_DEPTH_MAX || seen.count >= AWAITED_OBJECTS_MAX) {
    return { __proto__: null, value };
  }
  if (host.proxyTarget(value) !== undefined) return { __proto__: null, value };
  const isList = ArrayIsArray(value);
  const prototype = ReflectGetPrototypeOf(value);
  if (!isList && prototype !== ObjectPrototype && prototype !== null) return { __proto__: null, value };
  seen.count += 1;
  const copy = isList ? [] : {};
  const keys = ReflectOwnKeys(value);
  for (let i = 0; i < keys.length; i++) {
    const descriptor = ReflectGetOwnPropertyDescriptor(value, keys[i]);
    if (isData(descriptor)) {
      // Not awaited where nothing is to be: what a promise is resolved with is asked for its `then`.
      const inner = descriptor.value;
      const awaited = inner !== null && typeof inner === "object" ? (await awaitInside(inner, depth + 1, seen)).value : inner;
      descriptor.value = awaited;
    }
    ReflectDefineProperty(copy, keys[i], descriptor);
  }
  return { __proto__: null, value: copy };
};

// A promise of `{value}`: the value with the promises inside of it awaited.
exports.awaitInside = (value) => awaitInside(value, 0, { __proto__: null, count: 0 });

// `toJSON` counts when the value or a class of the script has it, not when a built-in prototype was given one.
const builtinPrototypes = new WeakSet([
  Object.prototype, Function.prototype, Array.prototype, Promise.prototype, RegExp.prototype, Number.prototype,
  String.prototype, Boolean.prototype, Symbol.prototype, WeakMap.prototype, WeakSet.prototype, IteratorPrototype,
]);
exports.toJson = (value) => {
  for (let holder = value; holder !== null; holder = ReflectGetPrototypeOf(holder)) {
    if (WeakSetHas(builtinPrototypes, holder)) return undefined;
    if (!ObjectHasOwn(holder, "toJSON")) continue;
    const method = value.toJSON;
    return typeof method === "function" ? [ReflectApply(method, value, [""])] : undefined;
  }
  return undefined;
};
