// What a failed expression names, for the message of its error. Nothing here runs code of the script: values are read from
// data properties, and the search ends at a getter or a proxy.

const {
  ArrayIsArray, Array, Date, Map, Object, ObjectHasOwn, Promise, RegExp, ReflectGetOwnPropertyDescriptor,
  ReflectGetPrototypeOf, ReflectOwnKeys, Set, String, StringStartsWith, Number, BigInt, Boolean, Symbol, Function, host,
  isData, isObject, newList,
} = core;

// Prototypes between an object and the property that is looked for.
const CHAIN_MAX = 32;
// Names of members that are returned; more than that is a dictionary and not an interface.
const MEMBERS_MAX = 200;

const prototypes = {
  __proto__: null,
  array: Array.prototype, promise: Promise.prototype, map: Map.prototype, set: Set.prototype, date: Date.prototype,
  regexp: RegExp.prototype, string: String.prototype, number: Number.prototype, bigint: BigInt.prototype,
  boolean: Boolean.prototype, symbol: Symbol.prototype, function: Function.prototype,
};
const { prototype: ObjectPrototype } = Object;

const kindOf = (value) => {
  if (value === null) return "null";
  if (typeof value !== "object") return typeof value;
  if (host.proxyTarget(value) !== undefined) return "proxy";
  if (ArrayIsArray(value)) return "array";
  const prototype = ReflectGetPrototypeOf(value);
  for (const kind in prototypes) if (prototypes[kind] === prototype) return kind;
  return "object";
};

// [value] of a property, undefined if it does not exist, null where it cannot be known without running code.
const readData = (value, name, mayRead) => {
  let holder = isObject(value) ? value : prototypes[typeof value];
  for (let i = 0; i < CHAIN_MAX && isObject(holder); i++) {
    if (host.proxyTarget(holder) !== undefined) return null;
    const descriptor = ReflectGetOwnPropertyDescriptor(holder, name);
    if (descriptor !== undefined) {
      if (isData(descriptor)) return [descriptor.value];
      return mayRead ? [value[name]] : null;
    }
    holder = ReflectGetPrototypeOf(holder);
  }
  return undefined;
};

const addNames = (names, holder) => {
  const keys = ReflectOwnKeys(holder);
  for (let i = 0; i < keys.length && names.length < MEMBERS_MAX; i++) {
    if (typeof keys[i] === "string" && keys[i] !== "constructor" && !StringStartsWith(keys[i], "__")) {
      names[names.length] = keys[i];
    }
  }
};

const membersOf = (value, kind) => {
  const names = newList();
  if (kind === "proxy" || value === null || value === undefined) return names;
  let holder = isObject(value) ? value : prototypes[kind];
  for (let i = 0; i < CHAIN_MAX && isObject(holder) && holder !== ObjectPrototype; i++) {
    if (host.proxyTarget(holder) !== undefined) break;
    // The items of a list are not its interface.
    if (!(kind === "array" && i === 0) && kind !== "string" || !isObject(value)) addNames(names, holder);
    else if (holder !== value) addNames(names, holder);
    holder = ReflectGetPrototypeOf(holder);
  }
  return names;
};

// Follows `path` from the global object. Returns [steps, kind, ...members] of the last value that was reached; `kind` is
// "unknown" where the next one cannot be known.
exports.lookAt = (path, isBinding) => {
  let value = globalThis;
  let steps = 0;
  let kind = "object";
  for (; steps < path.length; steps++) {
    const read = value === null || value === undefined ? undefined : readData(value, path[steps], isBinding && steps === 0);
    if (read === null) {
      kind = "unknown";
      break;
    }
    if (read === undefined) break;
    value = read[0];
  }
  const result = newList();
  result[0] = "" + steps;
  if (kind === "unknown") {
    result[1] = kind;
    return result;
  }
  result[1] = kindOf(value);
  const members = value === globalThis ? newList() : membersOf(value, result[1]);
  for (let i = 0; i < members.length; i++) result[result.length] = members[i];
  return result;
};

// The names of global variables, those of the script among them.
exports.globalNames = () => {
  const names = newList();
  const keys = ReflectOwnKeys(globalThis);
  for (let i = keys.length - 1; i >= 0 && names.length < 1000; i--) {
    if (typeof keys[i] === "string" && !StringStartsWith(keys[i], "__")) names[names.length] = keys[i];
  }
  return names;
};
