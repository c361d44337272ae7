// What the conversion of values needs of JavaScript: the kinds of object that have a tag on the wire.

const {
  Array, ArrayBufferByteLength, ArrayBufferIsView, ArrayIsArray, BigInt, BigIntToString, Boolean, DataViewBuffer,
  DOMExceptionName, DataViewByteLength, DataViewByteOffset, Date, DateGetTime, DateToISOString, Error, ErrorIsError,
  ErrorStack, EvalError, Function, host, isData,
  IteratorPrototype, Map, MapEntries, MapIteratorNext, MapSet, Number, Object, ObjectHasOwn, Promise, RangeError,
  ReferenceError, ReflectApply, ReflectDefineProperty, ReflectGetOwnPropertyDescriptor, ReflectGetPrototypeOf,
  ReflectOwnKeys, RegExp, Set, SetAdd, SetIteratorNext,
  SetValues, String, StringStartsWith, StringToWellFormed, Symbol, SyntaxError, TypeError, TypedArrayBuffer, TypedArrayByteLength,
  TypedArrayByteOffset, TypedArrayName, URIError, WeakMap, WeakSet, WeakSetHas, bindingErrors, unit,
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
