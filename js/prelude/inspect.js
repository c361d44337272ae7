// `inspect(value, depth)`: the text of any value, as Node's console shows it.
//
// Two promises hold whatever the value is: nothing of the script runs (no getter, no trap, no toString), and the
// text is bounded. Each piece is charged against a budget, and once it is spent collections stop with a remark.

// Longest text of one inspected value: a screenful of anything sensible, and far below what a console line may hold.
const INSPECT_CHARS_MAX = 100_000;
const INSPECT_DEPTH_DEFAULT = 2;
// Deepest nesting `console.dir` may ask for: as deep as a value may be that leaves the session.
const INSPECT_DEPTH_MAX = 100;

const newInspection = (depth) => ({
  __proto__: null,
  depth: depth >= 0 ? MathMin(depth, INSPECT_DEPTH_MAX) : INSPECT_DEPTH_DEFAULT,
  seen: newList(),
  circular: undefined,
  indent: 0,
  deepest: 0,
  charsLeft: INSPECT_CHARS_MAX,
});

const charge = (inspection, text) => {
  inspection.charsLeft -= text.length + inspection.indent + 2;
  return text;
};

const formatValue = (inspection, value, level) => {
  if (!isObject(value)) return charge(inspection, formatPrimitive(value, inspection.indent));
  const target = throughProxies(value);
  if (target === null) return charge(inspection, "<Revoked Proxy>");
  if (listIndexOf(inspection.seen, target) !== -1) {
    return charge(inspection, "[Circular *" + circularIndex(inspection, target) + "]");
  }
  return formatObject(inspection, target, level);
};

const formatIndented = (inspection, value, level) => {
  inspection.indent += 2;
  const text = formatValue(inspection, value, level);
  inspection.indent -= 2;
  return text;
};

const circularIndex = (inspection, target) => {
  inspection.circular ??= new Map();
  if (!MapHas(inspection.circular, target)) MapSet(inspection.circular, target, MapSize(inspection.circular) + 1);
  return MapGet(inspection.circular, target);
};

const formatObject = (inspection, value, level) => {
  const about = describe(value);
  const shape = shapeOf(inspection, value, about);
  if (shape.keys.length === 0 && shape.entries === undefined) {
    return charge(inspection, shape.base === "" ? shape.open + shape.close : shape.base);
  }
  if (level > inspection.depth) {
    if (about.kind === "RegExp") return charge(inspection, shape.base);
    const label = StringSlice(prefixOf(about, about.kind === "Array" ? "Array" : "Object"), 0, -1);
    return charge(inspection, about.name === null ? label : "[" + label + "]");
  }
  inspection.seen[inspection.seen.length] = value;
  inspection.deepest = level + 1;
  const output = shape.entries === undefined ? newList() : shape.entries(inspection, value, level + 1);
  const itemCount = output.length;
  appendProperties(inspection, output, value, shape.keys, level + 1);
  inspection.seen.length -= 1;
  let { base } = shape;
  const reference = inspection.circular === undefined ? undefined : MapGet(inspection.circular, value);
  if (reference !== undefined) base = base === "" ? "<ref *" + reference + ">" : "<ref *" + reference + "> " + base;
  const isGrouped = shape.isArray && output.length > COLUMNS_ENTRIES_MIN;
  const lines = isGrouped ? groupArray(inspection, value, output, itemCount) : output;
  const nested = inspection.deepest - (level + 1);
  return joinEntries(lines, base, shape.open, shape.close, inspection.indent, nested, lines.length !== output.length);
};

const groupArray = (inspection, value, output, itemCount) => {
  const hasMoreLine = output.length > ARRAY_ITEMS_MAX;
  let allNumeric = itemCount === output.length;
  if (ArrayIsArray(value)) {
    for (let i = 0; i < output.length && allNumeric; i++) allNumeric = isNumeric(ownData(value, i));
  } else {
    allNumeric &&= output.length <= TypedArrayLength(value);
  }
  return groupColumns(output, inspection.indent, hasMoreLine, allNumeric);
};

const appendProperties = (inspection, output, value, keys, level) => {
  for (let i = 0; i < keys.length; i++) {
    if (inspection.charsLeft <= 0) {
      output[output.length] = "... " + (keys.length - i) + " more";
      return;
    }
    output[output.length] = formatProperty(inspection, value, keys[i], level);
  }
};

const formatAccessor = ({ get, set }) => {
  if (get !== undefined) return set !== undefined ? "[Getter/Setter]" : "[Getter]";
  return set !== undefined ? "[Setter]" : "undefined";
};

const formatSlot = (inspection, descriptor, level) => {
  if (!isData(descriptor)) return charge(inspection, formatAccessor(descriptor));
  return formatIndented(inspection, descriptor.value, level);
};

const formatKey = (key, isEnumerable) => {
  if (typeof key === "symbol") return "[" + SymbolToString(key) + "]";
  if (key === "__proto__") return "['__proto__']";
  return isEnumerable ? quoteKey(key) : "[" + key + "]";
};

const formatProperty = (inspection, value, key, level) => {
  const descriptor = ReflectGetOwnPropertyDescriptor(value, key);
  const text = formatSlot(inspection, descriptor, level);
  return charge(inspection, formatKey(key, descriptor.enumerable)) + ": " + text;
};

// Enumerable own keys, strings before symbols; `skipIndexes` leaves the items of an array to its own formatter.
const visibleKeys = (value, skipIndexes) =>
  listFilter(
    ReflectOwnKeys(value),
    (key) => ObjectPropertyIsEnumerable(value, key) && !(skipIndexes && isArrayIndex(key)),
  );

const isArrayIndex = (key) => {
  if (typeof key !== "string" || key.length > 10) return false;
  const index = +key;
  return index >= 0 && index < 4294967295 && NumberIsInteger(index) && "" + index === key;
};

const cutText = (text, charsMax) => {
  if (text.length <= charsMax) return text;
  return StringSlice(text, 0, charsMax) + "… truncated, " + plural(text.length - charsMax, "more character");
};

const inspect = (value, depth = INSPECT_DEPTH_DEFAULT) => {
  try {
    return cutText(formatValue(newInspection(depth), value, 0), INSPECT_CHARS_MAX);
  } catch {
    // Only the end of the stack or of the memory gets here; the console call itself must still succeed.
    return "[value could not be inspected]";
  }
};

