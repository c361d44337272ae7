// Helpers that several units share; the first unit to be loaded brings them into `core`.

// Taken from the core.
const {
  ArrayBufferByteLength, ArrayBufferIsView, ArrayIsArray, DataViewBuffer, DataViewByteLength,
  DataViewByteOffset, ReflectApply, String, StringToWellFormed, SymbolIterator, TypedArrayBuffer, TypedArrayByteLength,
  TypedArrayByteOffset, TypedArrayName, isObject, newList,
} = core;

exports.listIndexOf = (list, item) => {
  for (let i = 0; i < list.length; i++) if (list[i] === item) return i;
  return -1;
};

// Keeps the items for which `keep(item)` holds, in order.
exports.listFilter = (list, keep) => {
  const kept = newList();
  for (let i = 0; i < list.length; i++) if (keep(list[i])) kept[kept.length] = list[i];
  return kept;
};

// Converts as a Web IDL `USVString` argument does.
exports.toUSVString = (value) => StringToWellFormed(String(value));

// Visits the items of an argument. Arrays are read by index, so that they stay readable when a script has broken
// their iterator; anything else answers the iteration protocol itself.
exports.forEachItem = (iterable, visit) => {
  if (ArrayIsArray(iterable)) {
    for (let i = 0; i < iterable.length; i++) visit(iterable[i]);
    return;
  }
  const iterator = ReflectApply(iterable[SymbolIterator], iterable, []);
  const { next } = iterator;
  for (let step; !(step = ReflectApply(next, iterator, [])).done; ) visit(step.value);
};

const newBytes = (buffer, offset, length) => ({ __proto__: null, buffer, offset, length });

// The bytes of a BufferSource argument, or undefined if it is something else.
exports.bytesOf = (source) => {
  if (!isObject(source)) return undefined;
  if (TypedArrayName(source) !== undefined) {
    return newBytes(TypedArrayBuffer(source), TypedArrayByteOffset(source), TypedArrayByteLength(source));
  }
  try {
    if (!ArrayBufferIsView(source)) return newBytes(source, 0, ArrayBufferByteLength(source));
    return newBytes(DataViewBuffer(source), DataViewByteOffset(source), DataViewByteLength(source));
  } catch {
    return undefined;
  }
};
exports.newBytes = newBytes;
