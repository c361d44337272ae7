// The shape of each kind of object: the text before the brace, the braces, the entries that are not properties,
// and which keys follow. One function a kind; `shapeOf` picks it.

const shape = (prefix, keys, entries) => ({
  __proto__: null, base: "", open: prefix + "{", close: "}", isArray: false, keys, entries,
});

// `base` describes the object fully, unless it has properties of its own.
const baseShape = (base, keys) => {
  const made = shape("", keys, undefined);
  made.base = base;
  return made;
};

const arrayShape = (prefix, keys, length, entries) => {
  const made = shape(prefix, keys, length > 0 ? entries : undefined);
  made.open = prefix + "[";
  made.close = "]";
  made.isArray = true;
  return made;
};

// Calls `format(i)` for each of `total` items until the item limit or the budget is reached.
const formatItems = (inspection, total, shownMax, format) => {
  const output = newList();
  const shown = MathMin(total, shownMax);
  for (let i = 0; i < shown; i++) {
    if (inspection.charsLeft <= 0) {
      output[i] = moreItems(total - i);
      return output;
    }
    output[i] = format(i);
  }
  if (total > shown) output[shown] = moreItems(total - shown);
  return output;
};

const arrayEntries = (inspection, array, level) => {
  const output = newList();
  const { length } = array;
  let index = 0;
  while (index < length && output.length < ARRAY_ITEMS_MAX && inspection.charsLeft > 0) {
    const descriptor = ReflectGetOwnPropertyDescriptor(array, index);
    if (descriptor !== undefined) {
      output[output.length] = formatSlot(inspection, descriptor, level);
      index += 1;
    } else {
      const next = nextIndex(array, index);
      output[output.length] = "<" + plural(next - index, "empty item") + ">";
      index = next;
    }
  }
  if (index < length) output[output.length] = moreItems(length - index);
  return output;
};

// The first index at or after `from` that holds an item: a sparse array may be far longer than its keys.
const nextIndex = (array, from) => {
  const keys = ReflectOwnKeys(array);
  for (let i = 0; i < keys.length && isArrayIndex(keys[i]); i++) if (+keys[i] >= from) return +keys[i];
  return array.length;
};

const typedArrayEntries = (inspection, array) =>
  formatItems(inspection, TypedArrayLength(array), ARRAY_ITEMS_MAX, (i) =>
    charge(inspection, formatPrimitive(array[i], 0)),
  );

const mapEntries = (inspection, map, level) => {
  const iterator = MapEntries(map);
  return formatItems(inspection, MapSize(map), ARRAY_ITEMS_MAX, () => {
    const pair = MapIteratorNext(iterator).value;
    return formatIndented(inspection, pair[0], level) + " => " + formatIndented(inspection, pair[1], level);
  });
};

const setEntries = (inspection, set, level) => {
  const iterator = SetValues(set);
  return formatItems(inspection, SetSize(set), ARRAY_ITEMS_MAX, () =>
    formatIndented(inspection, SetIteratorNext(iterator).value, level),
  );
};

const promiseEntries = (inspection, promise, level) => {
  const state = host.promiseState(promise);
  const output = newList();
  if (state[0] === "pending") output[0] = charge(inspection, "<pending>");
  else output[0] = (state[0] === "rejected" ? "<rejected> " : "") + formatIndented(inspection, state[1], level);
  return output;
};

const bufferEntries = (byteLengthOf) => (inspection, buffer) => {
  const byteLength = byteLengthOf(buffer);
  const bytes = byteLength > 0 ? new Uint8Array(buffer) : undefined;
  const shown = MathMin(byteLength, ARRAY_ITEMS_MAX);
  let text = "";
  for (let i = 0; i < shown; i++) text += (i > 0 ? " " : "") + hex(bytes[i], 2);
  if (byteLength > shown) text += " ... " + plural(byteLength - shown, "more byte");
  const output = newList();
  output[0] = charge(inspection, "[Uint8Contents]: <" + text + ">");
  output[1] = "byteLength: " + byteLength;
  return output;
};

const dataViewEntries = (inspection, view, level) => {
  const output = newList();
  output[0] = "byteLength: " + DataViewByteLength(view);
  output[1] = "byteOffset: " + DataViewByteOffset(view);
  output[2] = "buffer: " + formatIndented(inspection, DataViewBuffer(view), level);
  return output;
};

const oneEntry = (text) => (inspection) => {
  const output = newList();
  output[0] = charge(inspection, text);
  return output;
};

const functionType = (chain) => {
  if (listIndexOf(chain, AsyncGeneratorFunctionPrototype) > 0) return "AsyncGeneratorFunction";
  if (listIndexOf(chain, AsyncFunctionPrototype) > 0) return "AsyncFunction";
  return listIndexOf(chain, GeneratorFunctionPrototype) > 0 ? "GeneratorFunction" : "Function";
};

const classBase = (value, about) => {
  let base = "class " + (ownData(value, "name") || "(anonymous)");
  if (about.name !== "Function" && about.name !== null) base += " [" + about.name + "]";
  if (about.tag !== "" && about.tag !== about.name) base += " [" + about.tag + "]";
  const parentName = about.chain.length > 1 ? ownData(about.chain[1], "name") : undefined;
  if (about.name === null) base += " extends null";
  else if (typeof parentName === "string" && parentName !== "") base += " extends " + parentName;
  return "[" + base + "]";
};

const functionBase = (value, about) => {
  if (StringStartsWith(FunctionToString(value), "class")) return classBase(value, about);
  const type = functionType(about.chain);
  const name = ownData(value, "name");
  let base = "[" + type + (about.name === null ? " (null prototype)" : "");
  base += typeof name === "string" && name !== "" ? ": " + name + "]" : " (anonymous)]";
  if (about.name !== type && about.name !== null) base += " " + about.name;
  if (about.tag !== "" && about.tag !== about.name) base += " [" + about.tag + "]";
  return base;
};

const withPrefix = (base, about, kind) => {
  const prefix = prefixOf(about, kind);
  return prefix === kind + " " ? base : prefix + base;
};

const regExpBase = (value) => "/" + RegExpSource(value) + "/" + regExpFlags(value);

const dateBase = (value) => (DateGetTime(value) === DateGetTime(value) ? DateToISOString(value) : "Invalid Date");

const boxedBase = (value, about, unbox) => {
  const { kind, name, tag } = about;
  let base = "[" + kind;
  if (name !== kind) base += name === null ? " (null prototype)" : " (" + name + ")";
  base += ": " + formatPrimitive(unbox(value), 0) + "]";
  return tag !== "" && tag !== name ? base + " [" + tag + "]" : base;
};

const boxedValue = {
  __proto__: null,
  Number: NumberValueOf, String: StringValueOf, Boolean: BooleanValueOf, BigInt: BigIntValueOf, Symbol: SymbolValueOf,
};

const iteratorShape = (value, about, keys) => {
  const label = about.tag === "" ? about.kind : about.tag;
  return shape("[" + label + "] ", keys, oneEntry("<items unknown>"));
};

const objectShape = (value, about, keys) => {
  if (about.name === "Object" && about.tag === "" && ObjectToString(value) === "[object Arguments]") {
    return shape("[Arguments] ", keys, undefined);
  }
  const isPlain = about.name === "Object" && about.tag === "";
  return shape(isPlain ? "" : prefixOf(about, "Object"), keys, undefined);
};

const collectionShape = (value, about, keys) => {
  const { kind } = about;
  const size = kind === "Map" ? MapSize(value) : SetSize(value);
  const entries = kind === "Map" ? mapEntries : setEntries;
  return shape(prefixOf(about, kind, "(" + size + ")"), keys, size > 0 ? entries : undefined);
};

const listShape = (value, about) => {
  const keys = visibleKeys(value, true);
  if (about.kind === "Array") {
    const isPlain = about.name === "Array" && about.tag === "";
    const prefix = isPlain ? "" : prefixOf(about, "Array", "(" + value.length + ")");
    return arrayShape(prefix, keys, value.length, arrayEntries);
  }
  const length = TypedArrayLength(value);
  const typeName = TypedArrayName(value);
  // The tag of a typed array is an accessor, so a subclass would lose it.
  const named = { __proto__: null, name: about.name, tag: about.name === null ? "" : typeName };
  return arrayShape(prefixOf(named, typeName, "(" + length + ")"), keys, length, typedArrayEntries);
};

const shapeOf = (inspection, value, about) => {
  const { kind } = about;
  if (kind === "Array" || kind === "TypedArray") return listShape(value, about);
  const keys = visibleKeys(value, kind === "String");
  switch (kind) {
    case "Function": return baseShape(functionBase(value, about), keys);
    case "Error": return errorShape(inspection, value, about, keys);
    case "Promise": return shape(prefixOf(about, kind), keys, promiseEntries);
    case "Map": case "Set": return collectionShape(value, about, keys);
    case "Date": return baseShape(withPrefix(dateBase(value), about, kind), keys);
    case "RegExp": return baseShape(withPrefix(regExpBase(value), about, kind), keys);
    case "ArrayBuffer": return shape(prefixOf(about, kind), keys, bufferEntries(ArrayBufferByteLength));
    case "SharedArrayBuffer": return shape(prefixOf(about, kind), keys, bufferEntries(SharedArrayBufferByteLength));
    case "DataView": return shape(prefixOf(about, kind), keys, dataViewEntries);
    case "WeakMap": case "WeakSet": return shape(prefixOf(about, kind), keys, oneEntry("<items unknown>"));
    case "Map Iterator": case "Set Iterator": return iteratorShape(value, about, keys);
  }
  const unbox = boxedValue[kind];
  if (unbox !== undefined) return baseShape(boxedBase(value, about, unbox), keys);
  const view = viewOf(value, about.chain);
  if (view === undefined) return objectShape(value, about, keys);
  return shape(prefixOf(about, "Object"), keys, viewEntries(view));
};

// How objects of the prelude's own classes read, whose state is private: see `defineView`.
const viewOf = (value, chain) => {
  for (let i = 1; i < chain.length; i++) {
    const view = MapGet(views, chain[i]);
    if (view !== undefined && view.isInstance(value)) return view;
  }
  return undefined;
};

const viewEntries = (view) => (inspection, value, level) => {
  const fields = view.fieldsOf(value);
  const isMap = view.separator === " => ";
  return formatItems(inspection, fields.length / 2, ARRAY_ITEMS_MAX, (i) => {
    const name = isMap ? formatString(fields[2 * i], 0) : fields[2 * i];
    return charge(inspection, name) + view.separator + formatIndented(inspection, fields[2 * i + 1], level);
  });
};
