// The `console` object. Each call makes one text and hands it to the host with its level; groups indent it.

// Deepest `console.group` indentation, so that a runaway loop of groups cannot grow every later line.
const GROUP_LEVELS_MAX = 50;
// Labels of counters and timers kept at the same time.
const CONSOLE_LABELS_MAX = 1_000;

const consoleCounts = new Map();
const consoleTimers = new Map();
let groupLevels = 0;

const writeLine = (level, text) => {
  if (groupLevels > 0) {
    const indent = StringRepeat("  ", groupLevels);
    text = indent + stringReplaceAll(text, "\n", "\n" + indent);
  }
  host.write(level, StringToWellFormed(text));
};

// A label is converted as its caller would see it, yet a hostile one must not throw out of the console.
const labelText = (label = "default") => (typeof label === "string" ? label : unit("inspect").toText(label));

const rememberLabel = (labels, label, value) => {
  if (MapHas(labels, label) || MapSize(labels) < CONSOLE_LABELS_MAX) MapSet(labels, label, value);
};

const writeTimer = (label, method, rest) => {
  const started = MapGet(consoleTimers, label);
  if (started === undefined) {
    writeLine("warn", "Warning: No such label '" + label + "' for console." + method + "()");
    return;
  }
  const text = label + ": " + unit("inspect").durationText(host.now() - started);
  writeLine("log", rest.length === 0 ? text : text + " " + unit("inspect").formatRest(rest, 0));
};

// Longest text of one console call; what is beyond is cut with a remark.
const CONSOLE_CHARS_MAX = 100_000;

// A lone text, by far the most common call, needs no formatter.
const format = (args) => {
  const isPlain = args.length === 1 && typeof args[0] === "string" && args[0].length <= CONSOLE_CHARS_MAX;
  return isPlain ? args[0] : unit("inspect").format(args);
};

const consoleMethods = {
  __proto__: null,
  log: (...args) => writeLine("log", format(args)),
  info: (...args) => writeLine("info", format(args)),
  warn: (...args) => writeLine("warn", format(args)),
  error: (...args) => writeLine("error", format(args)),
  debug: (...args) => writeLine("debug", format(args)),
  trace: (...args) => {
    const text = format(args);
    writeLine("error", "Trace" + (text === "" ? "" : ": " + text) + "\n" + unit("inspect").callerFrames());
  },
  dir: (value, options) => {
    writeLine("log", unit("inspect").formatDir(value, options));
  },
  table: (value, columns) => writeLine("log", unit("inspect").formatTable(value, columns) ?? format([value])),
  assert: (condition, ...args) => {
    if (condition) return;
    writeLine("error", "Assertion failed" + (args.length === 0 ? "" : ": " + format(args)));
  },
  count: (label) => {
    label = labelText(label);
    const count = (MapGet(consoleCounts, label) ?? 0) + 1;
    rememberLabel(consoleCounts, label, count);
    writeLine("log", label + ": " + count);
  },
  countReset: (label) => {
    label = labelText(label);
    if (!MapDelete(consoleCounts, label)) writeLine("warn", "Warning: Count for '" + label + "' does not exist");
  },
  time: (label) => {
    label = labelText(label);
    if (!MapHas(consoleTimers, label)) rememberLabel(consoleTimers, label, host.now());
    else writeLine("warn", "Warning: Label '" + label + "' already exists for console.time()");
  },
  timeLog: (label, ...rest) => writeTimer(labelText(label), "timeLog", rest),
  timeEnd: (label) => {
    label = labelText(label);
    writeTimer(label, "timeEnd", []);
    MapDelete(consoleTimers, label);
  },
  group: (...args) => {
    if (args.length > 0) writeLine("log", format(args));
    groupLevels = MathMin(groupLevels + 1, GROUP_LEVELS_MAX);
  },
  groupEnd: () => {
    groupLevels = MathMax(groupLevels - 1, 0);
  },
};

const console = {};
for (const name in consoleMethods) {
  ReflectDefineProperty(console, name, {
    __proto__: null, value: consoleMethods[name], writable: true, enumerable: true, configurable: true,
  });
}
console.groupCollapsed = console.group;
console.dirxml = console.log;
defineTag(console, "console");
defineGlobal("console", console);
