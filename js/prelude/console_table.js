// `console.table`: rows of an array, object, Map or Set as a box of characters.

// Rows shown; a longer table does not help a reader.
const TABLE_ROWS_MAX = 1_000;
const TABLE_COLUMNS_MAX = 50;
const TABLE_CELL_CHARS_MAX = 1_000;

const tableLine = (widths, left, middle, right) => {
  const cells = newList();
  for (let i = 0; i < widths.length; i++) cells[i] = StringRepeat("─", widths[i]);
  return left + ArrayJoin(cells, middle) + right;
};

const tableRow = (cells, widths) => {
  let line = "│";
  for (let i = 0; i < widths.length; i++) {
    const cell = cells[i] ?? "";
    line += " " + cell + StringRepeat(" ", widths[i] - displayWidth(cell) - 1) + "│";
  }
  return line;
};

const drawTable = (head, rows) => {
  const widths = newList();
  for (let i = 0; i < head.length; i++) {
    widths[i] = displayWidth(head[i]) + 2;
    for (let j = 0; j < rows.length; j++) widths[i] = MathMax(widths[i], displayWidth(rows[j][i] ?? "") + 2);
  }
  const lines = newList();
  lines[0] = tableLine(widths, "┌", "┬", "┐");
  lines[1] = tableRow(head, widths);
  lines[2] = tableLine(widths, "├", "┼", "┤");
  for (let i = 0; i < rows.length; i++) lines[lines.length] = tableRow(rows[i], widths);
  lines[lines.length] = tableLine(widths, "└", "┴", "┘");
  return ArrayJoin(lines, "\n");
};

const newRow = (index, key, value) => ({ __proto__: null, index, key, value, cells: undefined, text: "" });

const collectionRows = (value, kind) => {
  const rows = newList();
  const iterator = kind === "Map" ? MapEntries(value) : SetValues(value);
  const total = MathMin(kind === "Map" ? MapSize(value) : SetSize(value), TABLE_ROWS_MAX);
  for (let i = 0; i < total; i++) {
    if (kind === "Map") {
      const pair = MapIteratorNext(iterator).value;
      rows[i] = newRow("" + i, inspect(pair[0], 0), pair[1]);
    } else {
      rows[i] = newRow("" + i, undefined, SetIteratorNext(iterator).value);
    }
  }
  return rows;
};

const propertyRows = (value) => {
  const rows = newList();
  const keys = visibleKeys(value, false);
  for (let i = 0; i < keys.length && i < TABLE_ROWS_MAX; i++) {
    if (typeof keys[i] === "string") rows[rows.length] = newRow(keys[i], undefined, ownData(value, keys[i]));
  }
  return rows;
};

const cellText = (value) => cutText(inspect(value, 0), TABLE_CELL_CHARS_MAX);

// The number of the column `name`, which is added if there is room.
const columnOf = (columns, name) => {
  if (!MapHas(columns, name) && MapSize(columns) < TABLE_COLUMNS_MAX) MapSet(columns, name, MapSize(columns));
  return MapGet(columns, name);
};

// Puts the fields of an object under their columns; new columns are added unless the caller chose them.
const rowCells = (object, columns, isChosen) => {
  const cells = newList();
  const keys = visibleKeys(object, false);
  for (let i = 0; i < keys.length; i++) {
    if (typeof keys[i] !== "string" || (isChosen && !MapHas(columns, keys[i]))) continue;
    const column = columnOf(columns, keys[i]);
    if (column !== undefined) cells[column] = cellText(ownData(object, keys[i]));
  }
  return cells;
};

// Makes the table of `rows`; `wanted` (or undefined) restricts and orders the columns.
const tableText = (rows, hasKeys, wanted) => {
  const columns = new Map();
  const isChosen = wanted !== undefined;
  for (let i = 0; isChosen && i < wanted.length; i++) columnOf(columns, toText(ownData(wanted, i)));
  let hasValues = false;
  for (let i = 0; i < rows.length; i++) {
    const row = rows[i];
    const target = isObject(row.value) ? throughProxies(row.value) : null;
    const isRecord = target !== null && typeof target !== "function";
    row.cells = isRecord ? rowCells(target, columns, isChosen) : newList();
    row.text = isRecord ? "" : cellText(row.value);
    hasValues ||= !isRecord;
  }
  return cutText(joinTable(rows, columns, hasKeys, hasValues), INSPECT_CHARS_MAX);
};

const joinTable = (table, columns, hasKeys, hasValues) => {
  const names = newList();
  const iterator = MapEntries(columns);
  for (let i = 0; i < MapSize(columns); i++) names[i] = MapIteratorNext(iterator).value[0];
  const head = newList();
  head[0] = hasKeys === undefined ? "(index)" : "(iteration index)";
  if (hasKeys) head[1] = "Key";
  const lead = head.length;
  for (let i = 0; i < names.length; i++) head[lead + i] = names[i];
  if (hasValues) head[head.length] = "Values";
  const rows = newList();
  for (let i = 0; i < table.length; i++) {
    const cells = newList();
    cells[0] = table[i].index;
    if (hasKeys) cells[1] = table[i].key;
    for (let j = 0; j < names.length; j++) cells[lead + j] = table[i].cells[j] ?? "";
    if (hasValues) cells[lead + names.length] = table[i].text;
    rows[i] = cells;
  }
  return drawTable(head, rows);
};

// The table's text, or undefined when the value has no rows to show.
const formatTable = (value, wanted) => {
  const target = isObject(value) ? throughProxies(value) : null;
  if (target === null || typeof target === "function") return undefined;
  const { kind } = describe(target);
  const list = isObject(wanted) ? throughProxies(wanted) : null;
  const columns = list !== null && ArrayIsArray(list) ? list : undefined;
  if (kind === "Map" || kind === "Set") return tableText(collectionRows(target, kind), kind === "Map", columns);
  return tableText(propertyRows(target), undefined, columns);
};

exports.callerFrames = callerFrames;
exports.durationText = durationText;
exports.format = format;
exports.formatDir = formatDir;
exports.formatRest = formatRest;
exports.formatTable = formatTable;
exports.inspect = inspect;
exports.toText = toText;
// For structuredClone, which sorts objects by the same kinds.
exports.boxedValue = boxedValue;
exports.describe = describe;
exports.errorStack = errorStack;
exports.errorText = errorText;
exports.isProxy = isProxy;
exports.regExpFlags = regExpFlags;
exports.viewOf = viewOf;
