// Bindings as globals, and functions of the peer as functions.
//
// A binding's first segment is a global accessor that cannot be reconfigured. Assigning to it shadows the binding
// until the next eval begins; functions and namespaces are frozen. So no script can damage a binding for a later one.

const WeakMapGet = uncurry(WeakMap.prototype.get);
const WeakMapSet = uncurry(WeakMap.prototype.set);
const WeakSetAdd = uncurry(WeakSet.prototype.add);
const WeakRefDeref = uncurry(WeakRef.prototype.deref);
const FinalizationRegister = uncurry(FinalizationRegistry.prototype.register);
const MapClear = uncurry(Map.prototype.clear);
const ObjectFreeze = Object.freeze;

const slots = { __proto__: null };
let shadows = newList();

const nameFunction = (value, name) =>
  ReflectDefineProperty(value, "name", { __proto__: null, value: name, configurable: true });

const bindingFunction = (name, segment) => {
  // A binding of the server goes by its number, which spares each call the search for its name.
  const key = host.numberOf(name) ?? name;
  // A method shorthand cannot be constructed.
  const { call } = {
    call() {
      return host.call(key, arguments.length, arguments[0]);
    },
  };
  nameFunction(call, segment);
  return ObjectFreeze(call);
};

// A tree node is a binding's full name, or a null-prototype object of further nodes.
const build = (node, segment) => {
  if (typeof node === "string") return bindingFunction(node, segment);
  const namespace = {};
  const keys = ReflectOwnKeys(node);
  for (let i = 0; i < keys.length; i++) {
    const value = build(node[keys[i]], keys[i]);
    ReflectDefineProperty(namespace, keys[i], { __proto__: null, value, enumerable: true });
  }
  return ObjectFreeze(namespace);
};

const defineSlot = (segment) => {
  const slot = { __proto__: null, node: undefined, value: undefined, shadow: undefined, isShadowed: false };
  slots[segment] = slot;
  const get = () => {
    if (slot.isShadowed) return slot.shadow;
    if (slot.node === undefined) return undefined;
    return (slot.value ??= build(slot.node, segment));
  };
  const set = (value) => {
    if (!slot.isShadowed) {
      shadows[shadows.length] = slot;
      host.noteShadow();
    }
    slot.isShadowed = true;
    slot.shadow = value;
  };
  ReflectDefineProperty(globalThis, segment, { __proto__: null, get, set, enumerable: false, configurable: false });
  return slot;
};

// `segments` is a flat list: for each binding its number of segments, the segments, then its full name.
exports.setBindings = (segments) => {
  const tree = { __proto__: null };
  for (let i = 0; i < segments.length; ) {
    const last = i + +segments[i];
    let node = tree;
    for (i++; i < last; i++) node = node[segments[i]] ??= { __proto__: null };
    node[segments[i++]] = segments[i++];
  }
  const known = ReflectOwnKeys(slots);
  for (let i = 0; i < known.length; i++) {
    slots[known[i]].node = undefined;
    slots[known[i]].value = undefined;
  }
  const wanted = ReflectOwnKeys(tree);
  for (let i = 0; i < wanted.length; i++) (slots[wanted[i]] ?? defineSlot(wanted[i])).node = tree[wanted[i]];
};

// Called when an unmodified object appears to have one of these.
const ObjectPrototype = Object.prototype;
const ReflectDeleteProperty = Reflect.deleteProperty;
exports.cleanObjectPrototype = () => {
  if (ObjectHasOwn(ObjectPrototype, "value")) ReflectDeleteProperty(ObjectPrototype, "value");
  if (ObjectHasOwn(ObjectPrototype, "then")) ReflectDeleteProperty(ObjectPrototype, "then");
};

// A name that is no longer a binding keeps what a script assigned to it, like any other global. Returns whether there
// is one.
exports.dropShadows = () => {
  const kept = newList();
  for (let i = 0; i < shadows.length; i++) {
    const slot = shadows[i];
    if (slot.node === undefined) kept[kept.length] = slot;
    else {
      slot.isShadowed = false;
      slot.shadow = undefined;
    }
  }
  shadows = kept;
  return kept.length > 0;
};

// A function of the peer. The same reference always yields the same function; the host counts how often it was received,
// and releases all receipts together when the function is collected.
const imported = new Map();
const released = new FinalizationRegistry((id) => {
  const weak = MapGet(imported, id);
  if (weak !== undefined && WeakRefDeref(weak) === undefined) {
    MapDelete(imported, id);
    host.release(id);
  }
});

exports.importFunction = (id, name) => {
  const weak = MapGet(imported, id);
  const known = weak === undefined ? undefined : WeakRefDeref(weak);
  if (known !== undefined) return known;
  const { call } = {
    call() {
      return host.callReference(id, arguments);
    },
  };
  nameFunction(call, name);
  MapSet(imported, id, new WeakRef(call));
  FinalizationRegister(released, call, id);
  return call;
};
exports.forgetImports = () => MapClear(imported);
exports.importCount = () => MapSize(imported);

// What `await someBinding()` throws: the peer's message, code and data; `name` is the kind. Which errors are such is
// remembered, so that an uncaught one is distinguished from one that a script made to look like it.
core.bindingErrors = new WeakSet();
exports.makeBindingError = (name, message, code, data, stack) => {
  const error = new Error(message);
  if (stack !== undefined) {
    const value = name + ": " + message + "\n" + stack;
    ReflectDefineProperty(error, "stack", { __proto__: null, value, writable: true, configurable: true });
  }
  ReflectDefineProperty(error, "name", { __proto__: null, value: name, writable: true, configurable: true });
  error.code = code;
  if (data !== undefined) error.data = data;
  WeakSetAdd(core.bindingErrors, error);
  return error;
};

// Where a call is being made, for the error that it may end in.
exports.placeOfCall = () => {
  const stack = ReflectApply(framesOf, new Error(), []);
  return typeof stack === "string" ? stack : "";
};
exports.tooManyArguments = () => new TypeError("a binding takes one argument");

// The rest of what the engine calls is loaded when it is first needed.
exports.complete = () => {
  const values = unit("values");
  for (const name in values) exports[name] = values[name];
};

// A write to a const in the eval that declares it is rewritten to a write to this.
const readonly = new Proxy({ __proto__: null }, {
  __proto__: null,
  get: (_, name) => globalThis[name],
  set: (_, name) => {
    throw new TypeError("'" + name + "' is read-only");
  },
});
ReflectDefineProperty(globalThis, "__readonly", { __proto__: null, value: readonly });

// A number for each function of the script that goes out, the same each time it does.
const identities = new WeakMap();
let identityCount = 0;
exports.identify = (fn) => {
  const known = WeakMapGet(identities, fn);
  if (known !== undefined) return known;
  WeakMapSet(identities, fn, ++identityCount);
  return identityCount;
};

// The result of an eval or a called function, as a promise of `{value}`: QuickJS wraps an eval's value the same way, so
// that a promise inside is awaited by the reader.
exports.settle = async (value) => ({ __proto__: null, value: await value });
