// Units: parts of the prelude that most sessions never touch. Each is compiled apart, as a function of `core`, and
// loaded by the host when a script first names one of its globals. A session that logs a line and calls a binding
// never pays for URL or structuredClone; loading one takes a fraction of a millisecond.
//
// `core` is what a unit sees of this scope: every name it destructures at its top is listed here.

const core = {
  __proto__: null,
  host,
  DOMException, Date, Map, MapGet, MapHas, MapSet, MapSize, MathMax, MathMin, Object, ObjectHasOwn,
  ReflectApply, ReflectDefineProperty, ReflectGetOwnPropertyDescriptor, ReflectGetPrototypeOf, ReflectOwnKeys,
  ReflectSetPrototypeOf, String, StringIndexOf, StringRepeat, StringSlice, StringStartsWith, StringToWellFormed,
  Symbol, SymbolToStringTag, TypeError, TypedArrayBuffer, TypedArrayByteLength, TypedArrayByteOffset,
  TypedArrayName, TypedArraySet, Uint8Array, defineHidden, defineTag, isData, isObject, newList,
  requireArguments, startTimer, stringReplaceAll,
  // The constructors that only units use; the console also knows their prototypes by these names.
  AggregateError, Array, ArrayBuffer, BigInt, BigInt64Array, BigUint64Array, Boolean, DataView, Error, EvalError,
  FinalizationRegistry, Float16Array, Float32Array, Float64Array, Function, Int16Array, Int32Array, Int8Array,
  InternalError, Number, Promise, RangeError, ReferenceError, RegExp, Set, SharedArrayBuffer, SyntaxError, URIError,
  Uint16Array, Uint32Array, Uint8ClampedArray, WeakMap, WeakRef, WeakSet,
  ErrorIsError: Error.isError,
  JSONStringify: JSON.stringify,
  MathFloor: Math.floor,
  MathRound: Math.round,
  MathSqrt: Math.sqrt,
  NumberIsInteger: Number.isInteger,
  NumberParseFloat: Number.parseFloat,
  NumberParseInt: Number.parseInt,
  ObjectIs: Object.is,
  StringFromCharCode: String.fromCharCode,
  ArrayIsArray: Array.isArray,
  ArrayBufferIsView: ArrayBuffer.isView,
  SymbolIterator: Symbol.iterator,
  AsyncFunctionPrototype: ReflectGetPrototypeOf(async function () {}),
  GeneratorFunctionPrototype: ReflectGetPrototypeOf(function* () {}),
  AsyncGeneratorFunctionPrototype: ReflectGetPrototypeOf(async function* () {}),
  IteratorPrototype: Iterator.prototype,
  MapIteratorPrototype: ReflectGetPrototypeOf(new Map().entries()),
  SetIteratorPrototype: ReflectGetPrototypeOf(new Set().values()),
};

// Prototype methods as they were, to be uncurried once the first unit asks for them.
const methods = {
  __proto__: null,
  ArrayJoin: Array.prototype.join,
  ArraySlice: Array.prototype.slice,
  ArraySort: Array.prototype.sort,
  ArrayBufferByteLength: getterOf(ArrayBuffer.prototype, "byteLength"),
  ArrayBufferTransfer: ArrayBuffer.prototype.transfer,
  SharedArrayBufferByteLength: getterOf(SharedArrayBuffer.prototype, "byteLength"),
  BigIntToString: BigInt.prototype.toString,
  BigIntValueOf: BigInt.prototype.valueOf,
  BooleanValueOf: Boolean.prototype.valueOf,
  DataViewBuffer: getterOf(DataView.prototype, "buffer"),
  DataViewByteLength: getterOf(DataView.prototype, "byteLength"),
  DataViewByteOffset: getterOf(DataView.prototype, "byteOffset"),
  DateGetTime: Date.prototype.getTime,
  DateToISOString: Date.prototype.toISOString,
  DOMExceptionName: getterOf(DOMException.prototype, "name"),
  DOMExceptionMessage: getterOf(DOMException.prototype, "message"),
  ErrorStack: getterOf(Error.prototype, "stack"),
  FunctionToString: Function.prototype.toString,
  MapEntries: Map.prototype.entries,
  MapIteratorNext: core.MapIteratorPrototype.next,
  NumberToString: Number.prototype.toString,
  NumberToFixed: Number.prototype.toFixed,
  NumberValueOf: Number.prototype.valueOf,
  ObjectPropertyIsEnumerable: Object.prototype.propertyIsEnumerable,
  ObjectToString: Object.prototype.toString,
  RegExpExec: RegExp.prototype.exec,
  RegExpSource: getterOf(RegExp.prototype, "source"),
  SetAdd: Set.prototype.add,
  SetSize: getterOf(Set.prototype, "size"),
  SetValues: Set.prototype.values,
  SetIteratorNext: core.SetIteratorPrototype.next,
  StringCharCodeAt: String.prototype.charCodeAt,
  StringEndsWith: String.prototype.endsWith,
  StringIncludes: String.prototype.includes,
  StringPadEnd: String.prototype.padEnd,
  StringPadStart: String.prototype.padStart,
  StringToLowerCase: String.prototype.toLowerCase,
  StringToUpperCase: String.prototype.toUpperCase,
  StringTrim: String.prototype.trim,
  StringTrimEnd: String.prototype.trimEnd,
  StringValueOf: String.prototype.valueOf,
  SymbolToString: Symbol.prototype.toString,
  SymbolValueOf: Symbol.prototype.valueOf,
  TypedArrayLength: getterOf(TypedArray.prototype, "length"),
  Uint8ArrayToBase64: Uint8Array.prototype.toBase64,
  WeakMapHas: WeakMap.prototype.has,
  WeakSetHas: WeakSet.prototype.has,
  WeakRefDeref: WeakRef.prototype.deref,
  RegExpHasIndices: getterOf(RegExp.prototype, "hasIndices"),
  RegExpGlobal: getterOf(RegExp.prototype, "global"),
  RegExpIgnoreCase: getterOf(RegExp.prototype, "ignoreCase"),
  RegExpMultiline: getterOf(RegExp.prototype, "multiline"),
  RegExpDotAll: getterOf(RegExp.prototype, "dotAll"),
  RegExpUnicode: getterOf(RegExp.prototype, "unicode"),
  RegExpUnicodeSets: getterOf(RegExp.prototype, "unicodeSets"),
  RegExpSticky: getterOf(RegExp.prototype, "sticky"),
};

// How the console shows objects of the prelude's own classes, whose state is private: `fieldsOf` answers names and
// values in turn, which are shown as `name: value` or `'name' => value`.
core.views = new Map();
core.defineView = (prototype, isInstance, separator, fieldsOf) =>
  MapSet(core.views, prototype, { __proto__: null, isInstance, separator, fieldsOf });

const loadedUnits = { __proto__: null };

// The exports of a unit, loaded at its first use.
const unit = (name) => {
  if (core.listIndexOf === undefined) completeCore();
  return (loadedUnits[name] ??= host.loadUnit(name)(core));
};
core.unit = unit;

const completeCore = () => {
  for (const name in methods) core[name] = uncurry(methods[name]);
  const helpers = host.loadUnit("helpers")(core);
  for (const name in helpers) core[name] = helpers[name];
};

// A global that costs nothing but its accessor until a script names it; then it turns into a plain property.
const defineUnitGlobal = (name, unitName) =>
  ReflectDefineProperty(globalThis, name, {
    __proto__: null,
    get: () => {
      const value = unit(unitName)[name];
      defineGlobal(name, value);
      return value;
    },
    set: (value) => defineGlobal(name, value),
    enumerable: false,
    configurable: true,
  });

defineUnitGlobal("TextEncoder", "encoding");
defineUnitGlobal("TextDecoder", "encoding");
defineUnitGlobal("URL", "url");
defineUnitGlobal("URLSearchParams", "url");
defineUnitGlobal("Event", "events");
defineUnitGlobal("CustomEvent", "events");
defineUnitGlobal("EventTarget", "events");
defineUnitGlobal("AbortController", "events");
defineUnitGlobal("AbortSignal", "events");
defineUnitGlobal("structuredClone", "clone");

exports.inspect = (value, depth) => unit("inspect").inspect(value, depth);
