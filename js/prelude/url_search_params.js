// URLSearchParams: an ordered list of names and values. Text in and out is the host's (form encoding).

// Taken from the core.
const {
  ArrayIsArray, ArraySort, IteratorPrototype, ObjectPropertyIsEnumerable, ReflectApply, ReflectDefineProperty,
  ReflectOwnKeys, ReflectSetPrototypeOf, StringSlice, SymbolIterator, TypeError, defineHidden, defineTag,
  defineView, forEachItem, host, isObject, newList, requireArguments, toUSVString,
} = core;

// Flat: name, value, name, value …
const pairsOf = (init) => {
  if (!isObject(init)) {
    const text = toUSVString(init);
    return toList(host.formParse(text[0] === "?" ? StringSlice(text, 1) : text));
  }
  const pairs = newList();
  if (!copyPairs(init, pairs)) {
    const keys = ReflectOwnKeys(init);
    for (let i = 0; i < keys.length; i++) {
      if (ObjectPropertyIsEnumerable(init, keys[i])) addPair(pairs, keys[i], init[keys[i]]);
    }
  }
  return pairs;
};

const toList = (array) => {
  ReflectSetPrototypeOf(array, null);
  return array;
};

const addPair = (pairs, name, value) => {
  pairs[pairs.length] = toUSVString(name);
  pairs[pairs.length] = toUSVString(value);
};

// Takes the pairs of an array or another iterable; false if `init` is a plain record.
const copyPairs = (init, pairs) => {
  if (isSearchParams(init)) {
    const source = pairsIn(init);
    for (let i = 0; i < source.length; i++) pairs[i] = source[i];
    return true;
  }
  if (!ArrayIsArray(init) && typeof init[SymbolIterator] !== "function") return false;
  forEachItem(init, (item) => {
    const pair = newList();
    if (isObject(item)) forEachItem(item, (part) => (pair[pair.length] = part));
    if (pair.length !== 2) throw new TypeError("URLSearchParams: each item must be a [name, value] pair");
    addPair(pairs, pair[0], pair[1]);
  });
  return true;
};

let isSearchParams;
let pairsIn;
let newLinked;
let relink;

class URLSearchParams {
  #pairs;
  // Called after every change, so that a URL follows its searchParams.
  #changed = undefined;

  static {
    isSearchParams = (value) => isObject(value) && #pairs in value;
    pairsIn = (params) => params.#pairs;
    newLinked = (text, changed) => {
      const params = new URLSearchParams(text);
      params.#changed = changed;
      return params;
    };
    relink = (params, text) => (params.#pairs = toList(host.formParse(text)));
  }

  constructor(init = "") {
    this.#pairs = pairsOf(init);
  }
  get size() {
    return this.#pairs.length / 2;
  }
  append(name, value) {
    requireArguments(arguments.length, 2, "append");
    addPair(this.#pairs, name, value);
    this.#changed?.();
  }
  delete(name, value = undefined) {
    requireArguments(arguments.length, 1, "delete");
    name = toUSVString(name);
    if (value !== undefined) value = toUSVString(value);
    this.#pairs = filterPairs(this.#pairs, (n, v) => n !== name || (value !== undefined && v !== value));
    this.#changed?.();
  }
  get(name) {
    requireArguments(arguments.length, 1, "get");
    const at = this.#find(toUSVString(name));
    return at === -1 ? null : this.#pairs[at + 1];
  }
  getAll(name) {
    requireArguments(arguments.length, 1, "getAll");
    name = toUSVString(name);
    const values = [];
    for (let i = 0; i < this.#pairs.length; i += 2) {
      if (this.#pairs[i] === name) defineIndex(values, values.length, this.#pairs[i + 1]);
    }
    return values;
  }
  has(name, value = undefined) {
    requireArguments(arguments.length, 1, "has");
    return this.#find(toUSVString(name), value === undefined ? undefined : toUSVString(value)) !== -1;
  }
  set(name, value) {
    requireArguments(arguments.length, 2, "set");
    name = toUSVString(name);
    value = toUSVString(value);
    const at = this.#find(name);
    if (at === -1) addPair(this.#pairs, name, value);
    else {
      this.#pairs[at + 1] = value;
      this.#pairs = filterPairs(this.#pairs, (n, v, i) => n !== name || i === at);
    }
    this.#changed?.();
  }
  sort() {
    const items = newList();
    for (let i = 0; i < this.#pairs.length; i += 2) items[i / 2] = [this.#pairs[i], this.#pairs[i + 1]];
    ArraySort(items, (a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0));
    for (let i = 0; i < items.length; i++) {
      this.#pairs[2 * i] = items[i][0];
      this.#pairs[2 * i + 1] = items[i][1];
    }
    this.#changed?.();
  }
  forEach(callback, thisArg = undefined) {
    if (typeof callback !== "function") throw new TypeError("forEach: the callback must be a function");
    for (let i = 0; i < this.#pairs.length; i += 2) {
      ReflectApply(callback, thisArg, [this.#pairs[i + 1], this.#pairs[i], this]);
    }
  }
  entries() {
    return new PairIterator(this, "entries");
  }
  keys() {
    return new PairIterator(this, "keys");
  }
  values() {
    return new PairIterator(this, "values");
  }
  toString() {
    return host.formSerialize(this.#pairs);
  }
  #find(name, value) {
    for (let i = 0; i < this.#pairs.length; i += 2) {
      if (this.#pairs[i] === name && (value === undefined || this.#pairs[i + 1] === value)) return i;
    }
    return -1;
  }
}

// `array[i] = value` would meet a setter planted on Array.prototype.
const defineIndex = (array, index, value) =>
  ReflectDefineProperty(array, index, { __proto__: null, value, writable: true, enumerable: true, configurable: true });

const filterPairs = (pairs, keep) => {
  const kept = newList();
  for (let i = 0; i < pairs.length; i += 2) if (keep(pairs[i], pairs[i + 1], i)) addPair(kept, pairs[i], pairs[i + 1]);
  return kept;
};

class PairIterator {
  #params;
  #kind;
  #at = 0;
  constructor(params, kind) {
    this.#params = params;
    this.#kind = kind;
  }
  next() {
    const pairs = pairsIn(this.#params);
    if (this.#at >= pairs.length) return { value: undefined, done: true };
    const name = pairs[this.#at];
    const value = pairs[this.#at + 1];
    this.#at += 2;
    return { value: this.#kind === "entries" ? [name, value] : this.#kind === "keys" ? name : value, done: false };
  }
}
ReflectSetPrototypeOf(PairIterator.prototype, IteratorPrototype);
delete PairIterator.prototype.constructor;
defineTag(PairIterator.prototype, "URLSearchParams Iterator");

defineHidden(URLSearchParams.prototype, SymbolIterator, URLSearchParams.prototype.entries);
defineTag(URLSearchParams.prototype, "URLSearchParams");
defineView(URLSearchParams.prototype, isSearchParams, " => ", pairsIn);

exports.URLSearchParams = URLSearchParams;
