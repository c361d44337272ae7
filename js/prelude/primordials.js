// The built-ins as they were before any script ran, and the few helpers every prelude file shares.
//
// A script may damage any prototype or global afterwards, so the prelude reaches built-ins only through the names
// captured here. House rules for every file of the prelude:
//  - no spread, no for-of, no array or iterator destructuring: they look up Symbol.iterator;
//  - no template literal with a substitution: QuickJS compiles it to a call of String.prototype.concat;
//  - no method call on a built-in value: use the uncurried name, `StringSlice(text, 1)`;
//  - nothing that asks for a species: no `then`, `slice` or `map` of a built-in object;
//  - option bags and descriptors have a null prototype, internal arrays come from `newList()` and grow by
//    `list[list.length] = item`: a setter planted on Object.prototype or Array.prototype is then out of reach;
//  - descriptors read back are plain objects, so ask `isData(descriptor)` before touching `value` or `get`.
//
// Every session pays for this scope, so what only the lazily loaded units need is captured raw, in `core`.

const exports = { __proto__: null };

const {
  Date, DOMException, Error, Map, Object, RangeError, String, Symbol, TypeError, Uint8Array, Uint32Array, WeakRef,
} = globalThis;
const TypedArray = Reflect.getPrototypeOf(Uint8Array);

const {
  apply: ReflectApply,
  defineProperty: ReflectDefineProperty,
  getOwnPropertyDescriptor: ReflectGetOwnPropertyDescriptor,
  getPrototypeOf: ReflectGetPrototypeOf,
  ownKeys: ReflectOwnKeys,
  setPrototypeOf: ReflectSetPrototypeOf,
} = Reflect;
const { bind: FunctionBind, call: FunctionCall } = Function.prototype;
// `uncurry(method)(self, ...args)` is `method.call(self, ...args)`, with no lookup left at call time.
const uncurry = ReflectApply(FunctionBind, FunctionBind, [FunctionCall]);
const getterOf = (prototype, name) => ReflectGetOwnPropertyDescriptor(prototype, name).get;

const { max: MathMax, min: MathMin, trunc: MathTrunc } = Math;
const { hasOwn: ObjectHasOwn } = Object;
const { toStringTag: SymbolToStringTag } = Symbol;

const MapDelete = uncurry(Map.prototype.delete);
const MapGet = uncurry(Map.prototype.get);
const MapHas = uncurry(Map.prototype.has);
const MapSet = uncurry(Map.prototype.set);
const MapSize = uncurry(getterOf(Map.prototype, "size"));
const StringIndexOf = uncurry(String.prototype.indexOf);
const StringRepeat = uncurry(String.prototype.repeat);
const StringSlice = uncurry(String.prototype.slice);
const StringStartsWith = uncurry(String.prototype.startsWith);
const StringToWellFormed = uncurry(String.prototype.toWellFormed);
const TypedArrayBuffer = uncurry(getterOf(TypedArray.prototype, "buffer"));
const TypedArrayByteLength = uncurry(getterOf(TypedArray.prototype, "byteLength"));
const TypedArrayByteOffset = uncurry(getterOf(TypedArray.prototype, "byteOffset"));
const TypedArraySet = uncurry(TypedArray.prototype.set);
// Answers undefined, rather than throwing, for anything that is not a typed array.
const TypedArrayName = uncurry(getterOf(TypedArray.prototype, SymbolToStringTag));

// An array that a script's changes to Array.prototype cannot reach.
const newList = () => {
  const list = [];
  ReflectSetPrototypeOf(list, null);
  return list;
};

const isObject = (value) => (typeof value === "object" && value !== null) || typeof value === "function";
const isData = (descriptor) => ObjectHasOwn(descriptor, "value");

const stringReplaceAll = (text, search, replacement) => {
  let result = "";
  let from = 0;
  for (let at; (at = StringIndexOf(text, search, from)) !== -1; from = at + search.length) {
    result += StringSlice(text, from, at) + replacement;
  }
  return from === 0 ? text : result + StringSlice(text, from);
};

const defineHidden = (object, name, value) =>
  ReflectDefineProperty(object, name, { __proto__: null, value, writable: true, configurable: true });

const defineGlobal = (name, value) => defineHidden(globalThis, name, value);

// `Object.prototype.toString` and the console show the tag, as they do for a browser's own classes.
const defineTag = (object, tag) =>
  ReflectDefineProperty(object, SymbolToStringTag, { __proto__: null, value: tag, configurable: true });

const requireArguments = (given, needed, where) => {
  if (given < needed) {
    throw new TypeError(where + ": arguments required: " + needed + ", present: " + given);
  }
};
