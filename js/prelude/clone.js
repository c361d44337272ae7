// structuredClone: the HTML algorithm for the types a session has. Transferred buffers are copied and then
// detached, which a script cannot distinguish from a move.

// Taken from the core.
const {
  ArrayBuffer, ArrayBufferByteLength, ArrayBufferTransfer, BigInt64Array, BigUint64Array, DOMException,
  DOMExceptionMessage, DOMExceptionName, DataView, Date, DateGetTime, Error, EvalError, Float16Array,
  Float32Array, Float64Array, Int16Array, Int32Array, Int8Array, Map, MapEntries, MapGet, MapHas,
  MapIteratorNext, MapSet, Object, ObjectHasOwn, ObjectPropertyIsEnumerable, RangeError, ReferenceError,
  ReflectDefineProperty, ReflectOwnKeys, RegExp, RegExpSource, Set, SetAdd, SetIteratorNext, SetValues,
  SyntaxError, TypeError, TypedArrayLength, TypedArrayName, TypedArraySet, URIError, Uint16Array, Uint32Array,
  Uint8Array, Uint8ClampedArray, bytesOf, defineHidden, forEachItem, isObject, listIndexOf, newList,
  requireArguments, unit,
} = core;

// Deepest value that is cloned: far beyond real data, and well inside the session's stack.
const CLONE_DEPTH_MAX = 200;

// By the name that `TypedArrayName` answers.
const TYPED_ARRAYS = {
  __proto__: null,
  BigInt64Array, BigUint64Array, Float16Array, Float32Array, Float64Array, Int8Array, Int16Array, Int32Array,
  Uint8Array, Uint8ClampedArray, Uint16Array, Uint32Array,
};

const { boxedValue, describe, errorStack, errorText, inspect, isProxy, regExpFlags, viewOf } = unit("inspect");

const ERROR_TYPES = { __proto__: null, Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError };

const refuse = (what) => {
  throw new DOMException(what + " could not be cloned", "DataCloneError");
};

const copyBuffer = (buffer) => {
  const copy = new ArrayBuffer(ArrayBufferByteLength(buffer));
  TypedArraySet(new Uint8Array(copy), new Uint8Array(buffer));
  return copy;
};

const setOwn = (object, key, value) =>
  ReflectDefineProperty(object, key, { __proto__: null, value, writable: true, enumerable: true, configurable: true });

const setHidden = (object, key, value) => {
  if (value !== undefined) defineHidden(object, key, value);
};

const cloneError = (value, about, memo, depth) => {
  const name = errorText(value, about.chain, "name", DOMExceptionName);
  const message = errorText(value, about.chain, "message", DOMExceptionMessage);
  if (about.name === "DOMException") return new DOMException(message, name);
  const copy = new (ERROR_TYPES[name] ?? Error)(message);
  MapSet(memo, value, copy);
  setHidden(copy, "stack", errorStack(value) || undefined);
  if (ObjectHasOwn(value, "cause")) setHidden(copy, "cause", clone(value.cause, memo, depth + 1));
  return copy;
};

const cloneView = (value, memo, depth) => {
  const { buffer, offset, length } = bytesOf(value);
  const copy = clone(buffer, memo, depth + 1);
  const name = TypedArrayName(value);
  if (name === undefined) return new DataView(copy, offset, length);
  return new TYPED_ARRAYS[name](copy, offset, TypedArrayLength(value));
};

const cloneMap = (value, memo, depth) => {
  const copy = new Map();
  MapSet(memo, value, copy);
  // The pairs as they are now: a getter met on the way may change the map.
  const pairs = newList();
  const iterator = MapEntries(value);
  for (let step; !(step = MapIteratorNext(iterator)).done; ) pairs[pairs.length] = step.value;
  for (let i = 0; i < pairs.length; i++) {
    const key = clone(pairs[i][0], memo, depth + 1);
    MapSet(copy, key, clone(pairs[i][1], memo, depth + 1));
  }
  return copy;
};

const cloneSet = (value, memo, depth) => {
  const copy = new Set();
  MapSet(memo, value, copy);
  const items = newList();
  const iterator = SetValues(value);
  for (let step; !(step = SetIteratorNext(iterator)).done; ) items[items.length] = step.value;
  for (let i = 0; i < items.length; i++) SetAdd(copy, clone(items[i], memo, depth + 1));
  return copy;
};

const cloneProperties = (value, copy, memo, depth) => {
  MapSet(memo, value, copy);
  const keys = ReflectOwnKeys(value);
  for (let i = 0; i < keys.length; i++) {
    if (typeof keys[i] === "string" && ObjectPropertyIsEnumerable(value, keys[i])) {
      setOwn(copy, keys[i], clone(value[keys[i]], memo, depth + 1));
    }
  }
  return copy;
};

const cloneArray = (value, memo, depth) => {
  const copy = [];
  copy.length = value.length;
  return cloneProperties(value, copy, memo, depth);
};

const cloneObject = (value, memo, depth) => {
  if (isProxy(value)) return refuse("A proxy");
  const about = describe(value);
  switch (about.kind) {
    case "Array": return cloneArray(value, memo, depth);
    case "Map": return cloneMap(value, memo, depth);
    case "Set": return cloneSet(value, memo, depth);
    case "Date": return new Date(DateGetTime(value));
    case "RegExp": return new RegExp(RegExpSource(value), regExpFlags(value));
    case "Error": return cloneError(value, about, memo, depth);
    case "ArrayBuffer": return copyBuffer(value);
    case "TypedArray": case "DataView": return cloneView(value, memo, depth);
    case "Number": case "String": case "Boolean": case "BigInt": return Object(boxedValue[about.kind](value));
    case "Object":
      if (viewOf(value, about.chain) === undefined) return cloneProperties(value, {}, memo, depth);
  }
  return refuse(inspect(value, 0));
};

const clone = (value, memo, depth) => {
  if (typeof value === "function" || typeof value === "symbol") return refuse(inspect(value, 0));
  if (!isObject(value)) return value;
  if (MapHas(memo, value)) return MapGet(memo, value);
  if (depth > CLONE_DEPTH_MAX) return refuse("A value nested deeper than " + CLONE_DEPTH_MAX + " levels");
  const copy = cloneObject(value, memo, depth);
  MapSet(memo, value, copy);
  return copy;
};

const transferList = (options) => {
  const buffers = newList();
  const transfer = isObject(options) ? options.transfer : undefined;
  if (transfer !== undefined) {
    forEachItem(transfer, (item) => {
      const bytes = bytesOf(item);
      const isBuffer = bytes !== undefined && bytes.buffer === item;
      if (!isBuffer || listIndexOf(buffers, item) !== -1) refuse("An item of the transfer list");
      buffers[buffers.length] = item;
    });
  }
  return buffers;
};

exports.structuredClone = function structuredClone(value, options = undefined) {
  requireArguments(arguments.length, 1, "structuredClone");
  const buffers = transferList(options);
  const copy = clone(value, new Map(), 0);
  for (let i = 0; i < buffers.length; i++) ArrayBufferTransfer(buffers[i]);
  return copy;
};
