// How formatted pieces become text: quoting, numbers, columns, and the choice between one line and several.
// The numbers are those of Node's `util.inspect`, because people and models read its output every day.

// Taken from the core.
const {
  ArrayBuffer, ArrayBufferByteLength, ArrayIsArray, ArrayJoin, AsyncFunctionPrototype,
  AsyncGeneratorFunctionPrototype, BigInt, BigIntToString, BigIntValueOf, Boolean, BooleanValueOf, DOMException,
  DOMExceptionMessage, DOMExceptionName, DataView, DataViewBuffer, DataViewByteLength, DataViewByteOffset, Date,
  DateGetTime, DateToISOString, Error, ErrorIsError, ErrorStack, FunctionToString, GeneratorFunctionPrototype,
  JSONStringify, Map, MapEntries, MapGet, MapHas, MapIteratorNext, MapIteratorPrototype, MapSet, MapSize,
  MathFloor, MathMax, MathMin, MathRound, MathSqrt, Number, NumberIsInteger, NumberParseFloat, NumberParseInt,
  NumberToFixed, NumberToString, NumberValueOf, ObjectHasOwn, ObjectIs, ObjectPropertyIsEnumerable,
  ObjectToString, Promise, ReflectApply, ReflectGetOwnPropertyDescriptor, ReflectGetPrototypeOf, ReflectOwnKeys,
  RegExp, RegExpDotAll, RegExpExec, RegExpGlobal, RegExpHasIndices, RegExpIgnoreCase, RegExpMultiline,
  RegExpSource, RegExpSticky, RegExpUnicode, RegExpUnicodeSets, Set, SetIteratorNext, SetIteratorPrototype,
  SetSize, SetValues, SharedArrayBuffer, SharedArrayBufferByteLength, String, StringCharCodeAt, StringEndsWith,
  StringFromCharCode, StringIncludes, StringIndexOf, StringPadEnd, StringPadStart, StringRepeat, StringSlice,
  StringStartsWith, StringToUpperCase, StringTrimEnd, StringValueOf, Symbol, SymbolToString, SymbolToStringTag,
  SymbolValueOf, TypedArrayLength, TypedArrayName, Uint8Array, WeakMap, WeakMapHas, WeakRef, WeakRefDeref,
  WeakSet, WeakSetHas, host, isData, isObject, listFilter, listIndexOf, newList, stringReplaceAll, unit, views,
} = core;

const BREAK_LENGTH = 80;
const ARRAY_ITEMS_MAX = 100;
const STRING_CHARS_MAX = 10_000;
// Above this many entries an array is laid out in columns.
const COLUMNS_ENTRIES_MIN = 6;
const COLUMNS_MAX = 15;
// An object stays on one line when it holds at most this many levels of nesting.
const COMPACT_LEVELS = 3;

const ESCAPED_CHARACTERS = /[\x00-\x1f'\\\x7f-\x9f\ud800-\udfff]/;
const PLAIN_KEY = /^[a-zA-Z_][a-zA-Z_0-9]*$/;
const NON_ASCII = /[^\x20-\x7e]/;
const SHORT_ESCAPES = { __proto__: null, 8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r", 92: "\\\\" };

const plural = (count, noun) => "" + count + " " + noun + (count > 1 ? "s" : "");
const moreItems = (count) => "... " + count + " more item" + (count > 1 ? "s" : "");

const hex = (code, digits) => StringPadStart(NumberToString(code, 16), digits, "0");

// The character itself, or its escape; a surrogate is escaped only when it has no partner.
const escapeCharacter = (text, at, quote) => {
  const code = StringCharCodeAt(text, at);
  if (code === quote) return "\\" + StringFromCharCode(code);
  if (code < 0x20 || code === 0x5c) return SHORT_ESCAPES[code] ?? "\\x" + StringToUpperCase(hex(code, 2));
  if (code >= 0x7f && code <= 0x9f) return "\\x" + StringToUpperCase(hex(code, 2));
  if (code >= 0xd800 && code <= 0xdfff) {
    const next = code < 0xdc00 && at + 1 < text.length ? StringCharCodeAt(text, at + 1) : 0;
    return next >= 0xdc00 && next <= 0xdfff ? StringSlice(text, at, at + 2) : "\\u" + hex(code, 4);
  }
  return text[at];
};

// Prefers the quote that needs no escape: ' then " then `.
const chooseQuote = (text) => {
  if (!StringIncludes(text, "'")) return "'";
  if (!StringIncludes(text, '"')) return '"';
  return StringIncludes(text, "`") || StringIncludes(text, "${") ? "'" : "`";
};

const quoteString = (text) => {
  if (RegExpExec(ESCAPED_CHARACTERS, text) === null) return "'" + text + "'";
  const quote = chooseQuote(text);
  const quoteCode = StringCharCodeAt(quote, 0);
  let result = quote;
  for (let i = 0; i < text.length; i++) {
    const piece = escapeCharacter(text, i, quoteCode);
    if (piece.length === 2 && piece[0] !== "\\") i++;
    result += piece;
  }
  return result + quote;
};

const quoteKey = (key) => (RegExpExec(PLAIN_KEY, key) !== null ? key : quoteString(key));

const formatNumber = (number) => (ObjectIs(number, -0) ? "-0" : "" + number);

// A long string is broken after its line ends, one quoted piece a line.
const formatLongString = (text, indent) => {
  const pieces = newList();
  for (let from = 0; from < text.length; ) {
    const end = StringIndexOf(text, "\n", from);
    const to = end === -1 ? text.length : end + 1;
    pieces[pieces.length] = quoteString(StringSlice(text, from, to));
    from = to;
  }
  return ArrayJoin(pieces, " +\n" + StringRepeat(" ", indent + 2));
};

const formatString = (text, indent) => {
  let trailer = "";
  if (text.length > STRING_CHARS_MAX) {
    trailer = "... " + plural(text.length - STRING_CHARS_MAX, "more character");
    text = StringSlice(text, 0, STRING_CHARS_MAX);
  }
  const tooLong = text.length > 16 && text.length > BREAK_LENGTH - indent - 4;
  return (tooLong ? formatLongString(text, indent) : quoteString(text)) + trailer;
};

const formatPrimitive = (value, indent) => {
  switch (typeof value) {
    case "string":
      return formatString(value, indent);
    case "number":
      return formatNumber(value);
    case "bigint":
      return BigIntToString(value) + "n";
    case "symbol":
      return SymbolToString(value);
    default:
      return "" + value;
  }
};

const isWide = (code) =>
  code >= 0x1100 &&
  (code <= 0x115f || (code >= 0x2e80 && code <= 0xa4cf) || (code >= 0xac00 && code <= 0xd7a3) ||
    (code >= 0xf900 && code <= 0xfaff) || (code >= 0xfe30 && code <= 0xfe6f) || (code >= 0xff00 && code <= 0xff60));

const isMark = (code) =>
  (code >= 0x300 && code <= 0x36f) || (code >= 0x200b && code <= 0x200f) || (code >= 0xfe00 && code <= 0xfe0f);

// Columns that the text takes on a terminal: wide East Asian characters and emoji pairs take two, combining marks none.
const displayWidth = (text) => {
  if (RegExpExec(NON_ASCII, text) === null) return text.length;
  let width = 0;
  for (let i = 0; i < text.length; i++) {
    const code = StringCharCodeAt(text, i);
    if (!isMark(code)) width += isWide(code) ? 2 : 1;
  }
  return width;
};

const isNumeric = (value) => typeof value === "number" || typeof value === "bigint";

// How many columns make a block about 2.5 times as wide as high, as characters are narrower than lines.
const columnCount = (entries, lines, widthMax, widthTotal, indent) => {
  const averageBias = MathSqrt(widthMax - widthTotal / lines);
  const biasedMax = MathMax(widthMax - 3 - averageBias, 1);
  return MathMin(
    MathRound(MathSqrt(2.5 * biasedMax * entries) / biasedMax),
    MathFloor((BREAK_LENGTH - indent) / widthMax),
    COMPACT_LEVELS * 4,
    COLUMNS_MAX,
  );
};

const layoutColumns = (output, entries, widths, columns, padStart) => {
  const columnWidths = newList();
  for (let column = 0; column < columns; column++) {
    let width = 0;
    for (let i = column; i < entries; i += columns) width = MathMax(width, widths[i]);
    columnWidths[column] = width + 2;
  }
  const pad = padStart ? StringPadStart : StringPadEnd;
  const lines = newList();
  for (let row = 0; row < entries; row += columns) {
    const last = MathMin(row + columns, entries) - 1;
    let line = "";
    for (let i = row; i < last; i++) {
      line += pad(output[i] + ", ", columnWidths[i - row] + output[i].length - widths[i], " ");
    }
    const width = columnWidths[last - row] - 2 + output[last].length - widths[last];
    lines[lines.length] = line + (padStart ? StringPadStart(output[last], width, " ") : output[last]);
  }
  return lines;
};

// Lays out the entries of an array in columns if they are short and alike enough; `allNumeric` aligns to the right.
const groupColumns = (output, indent, hasMoreLine, allNumeric) => {
  const entries = hasMoreLine ? output.length - 1 : output.length;
  const widths = newList();
  let widthTotal = 0;
  let widthMax = 0;
  for (let i = 0; i < entries; i++) {
    widths[i] = displayWidth(output[i]);
    widthTotal += widths[i] + 2;
    widthMax = MathMax(widthMax, widths[i] + 2);
  }
  if (widthMax * 3 + indent >= BREAK_LENGTH) return output;
  if (widthTotal / widthMax <= 5 && widthMax - 2 > 6) return output;
  const columns = columnCount(entries, output.length, widthMax, widthTotal, indent);
  if (columns <= 1) return output;
  const lines = layoutColumns(output, entries, widths, columns, allNumeric);
  if (hasMoreLine) lines[lines.length] = output[entries];
  return lines;
};

const fitsOnOneLine = (output, start, base) => {
  let length = output.length + start;
  if (length + output.length > BREAK_LENGTH) return false;
  for (let i = 0; i < output.length; i++) {
    length += output[i].length;
    if (length > BREAK_LENGTH || StringIncludes(output[i], "\n")) return false;
  }
  return base === "" || !StringIncludes(base, "\n");
};

// Joins the entries between the braces; `nested` is how many levels of objects stand below this one.
const joinEntries = (output, base, open, close, indent, nested, wasGrouped) => {
  const head = base === "" ? open : base + " " + open;
  if (nested < COMPACT_LEVELS && !wasGrouped) {
    const start = output.length + indent + open.length + base.length + 10;
    if (fitsOnOneLine(output, start, base)) return head + " " + ArrayJoin(output, ", ") + " " + close;
  }
  const line = "\n" + StringRepeat(" ", indent);
  return head + line + "  " + ArrayJoin(output, "," + line + "  ") + line + close;
};
