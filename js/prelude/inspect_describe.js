// What an object is, found without running any of its code: proxies are looked through by the host, accessors are
// never called, and prototypes are compared with the intrinsic ones instead of asking `instanceof`.

// The `flags` getter reads these through the prototype, so it cannot be trusted once scripts have run.
const REGEXP_FLAGS = {
  __proto__: null,
  d: RegExpHasIndices, g: RegExpGlobal, i: RegExpIgnoreCase, m: RegExpMultiline, s: RegExpDotAll, u: RegExpUnicode,
  v: RegExpUnicodeSets, y: RegExpSticky,
};
const regExpFlags = (regExp) => {
  let flags = "";
  for (const flag in REGEXP_FLAGS) if (REGEXP_FLAGS[flag](regExp)) flags += flag;
  return flags;
};

// Longest prototype chain that is looked at; real ones have fewer than ten links.
const PROTOTYPE_LINKS_MAX = 100;

// Intrinsic prototype -> function(value) that throws unless `value` really is of that kind, and the kind's name.
// Only an object that inherits from the prototype is ever probed, so ordinary objects cost no exception.
const kindsByPrototype = new Map();
const addKind = (prototype, name, probe) => MapSet(kindsByPrototype, prototype, { __proto__: null, name, probe });

addKind(Map.prototype, "Map", MapSize);
addKind(Set.prototype, "Set", SetSize);
addKind(Date.prototype, "Date", DateGetTime);
addKind(RegExp.prototype, "RegExp", RegExpGlobal);
addKind(ArrayBuffer.prototype, "ArrayBuffer", ArrayBufferByteLength);
addKind(SharedArrayBuffer.prototype, "SharedArrayBuffer", SharedArrayBufferByteLength);
addKind(DataView.prototype, "DataView", DataViewBuffer);
addKind(WeakMap.prototype, "WeakMap", (value) => WeakMapHas(value, value));
addKind(WeakSet.prototype, "WeakSet", (value) => WeakSetHas(value, value));
addKind(WeakRef.prototype, "WeakRef", WeakRefDeref);
addKind(MapIteratorPrototype, "Map Iterator", () => {});
addKind(SetIteratorPrototype, "Set Iterator", () => {});
addKind(Number.prototype, "Number", NumberValueOf);
addKind(String.prototype, "String", StringValueOf);
addKind(Boolean.prototype, "Boolean", BooleanValueOf);
addKind(BigInt.prototype, "BigInt", BigIntValueOf);
addKind(Symbol.prototype, "Symbol", SymbolValueOf);
addKind(DOMException.prototype, "Error", DOMExceptionName);

// The object behind any number of proxies, or null when one of them is revoked.
const throughProxies = (value) => {
  for (;;) {
    const target = host.proxyTarget(value);
    if (target === undefined) return value;
    if (target === null) return null;
    value = target;
  }
};

const isProxy = (value) => isObject(value) && host.proxyTarget(value) !== undefined;

// The own data property `key` of `object`, or undefined: never an accessor's result, never a trap's.
const ownData = (object, key) => {
  if (!isObject(object) || isProxy(object)) return undefined;
  const descriptor = ReflectGetOwnPropertyDescriptor(object, key);
  return descriptor !== undefined && isData(descriptor) ? descriptor.value : undefined;
};

// `value` and the objects it inherits from, up to the first proxy.
const prototypeChain = (value) => {
  const chain = newList();
  for (let link = value; link !== null && chain.length < PROTOTYPE_LINKS_MAX; link = ReflectGetPrototypeOf(link)) {
    if (chain.length > 0 && isProxy(link)) break;
    chain[chain.length] = link;
  }
  return chain;
};

// The first data property `key` along the chain; an accessor on the way hides what is behind it.
const chainData = (chain, key) => {
  for (let i = 0; i < chain.length; i++) {
    const descriptor = ReflectGetOwnPropertyDescriptor(chain[i], key);
    if (descriptor !== undefined) return isData(descriptor) ? descriptor.value : undefined;
  }
  return undefined;
};

// Names of the intrinsic prototypes, which thus survive a script that changes their `constructor`.
const intrinsicNames = new Map();
for (const name in core) {
  const prototype = typeof core[name] === "function" ? ownData(core[name], "prototype") : undefined;
  if (prototype !== undefined) MapSet(intrinsicNames, prototype, name);
}
MapSet(intrinsicNames, AsyncFunctionPrototype, "AsyncFunction");
MapSet(intrinsicNames, GeneratorFunctionPrototype, "GeneratorFunction");
MapSet(intrinsicNames, AsyncGeneratorFunctionPrototype, "AsyncGeneratorFunction");

// A constructor counts only if the value really inherits from its prototype: `Foo.prototype` is not a Foo.
const constructorName = (chain) => {
  for (let i = 0; i < chain.length; i++) {
    const intrinsicName = i > 0 ? MapGet(intrinsicNames, chain[i]) : undefined;
    if (intrinsicName !== undefined) return intrinsicName;
    const constructor = ownData(chain[i], "constructor");
    if (typeof constructor !== "function") continue;
    const name = ownData(constructor, "name");
    if (typeof name !== "string" || name === "") continue;
    const inherited = listIndexOf(chain, ownData(constructor, "prototype"));
    if (inherited > 0) return name;
  }
  return null;
};

const tagName = (chain) => {
  const tag = chainData(chain, SymbolToStringTag);
  if (typeof tag !== "string" || ObjectPropertyIsEnumerable(chain[0], SymbolToStringTag)) return "";
  return tag;
};

const probes = (kind, value) => {
  try {
    kind.probe(value);
    return true;
  } catch {
    return false;
  }
};

const kindOf = (value, chain) => {
  if (typeof value === "function") return "Function";
  if (ArrayIsArray(value)) return "Array";
  if (TypedArrayName(value) !== undefined) return "TypedArray";
  if (ErrorIsError(value)) return "Error";
  if (listIndexOf(chain, Promise.prototype) > 0 && host.promiseState(value) !== undefined) return "Promise";
  for (let i = 1; i < chain.length; i++) {
    const kind = MapGet(kindsByPrototype, chain[i]);
    if (kind !== undefined && probes(kind, value)) return kind.name;
  }
  return "Object";
};

const describe = (value) => {
  const chain = prototypeChain(value);
  return { __proto__: null, chain, kind: kindOf(value, chain), name: constructorName(chain), tag: tagName(chain) };
};

// `Foo `, `Map(2) `, `Foo [tag] ` or `[Object: null prototype] `: what stands before the brace.
const prefixOf = (about, fallback, size = "") => {
  const { name, tag } = about;
  if (name === null) {
    const label = tag !== "" && tag !== fallback ? "[" + tag + "] " : "";
    return "[" + fallback + size + ": null prototype] " + label;
  }
  return tag !== "" && tag !== name ? name + size + " [" + tag + "] " : name + size + " ";
};
