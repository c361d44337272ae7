// `format(args)`: printf-style text as `util.format` makes it, for console calls.

const charIsDirective = (directive) => StringIncludes("sdifjoOc", directive);

// Depth of `%o`, which shows more than the plain console does.
const DIRECTIVE_DEPTH_MAX = 4;

const toNumberText = (value, convert) => {
  if (typeof value === "bigint") return BigIntToString(value) + "n";
  if (typeof value === "symbol") return "NaN";
  try {
    return formatNumber(convert(value));
  } catch {
    return "NaN";
  }
};

// `%s` honours a `toString` the script wrote, but not the built-in ones, which say less than `inspect`.
const scriptToString = (value) => {
  if (throughProxies(value) !== value || ErrorIsError(value)) return undefined;
  const chain = prototypeChain(value);
  for (let i = 0; i < chain.length; i++) {
    const method = ownData(chain[i], "toString");
    if (method === undefined) continue;
    const isBuiltIn = StringIncludes(FunctionToString(method), "[native code]");
    return typeof method === "function" && !isBuiltIn ? method : undefined;
  }
  return undefined;
};

const toText = (value) => {
  if (typeof value === "string") return value;
  if (typeof value === "function") return FunctionToString(value);
  if (!isObject(value)) return formatPrimitive(value, 0);
  try {
    const method = scriptToString(value);
    if (method !== undefined) {
      const text = ReflectApply(method, value, []);
      if (typeof text === "string") return text;
    }
  } catch {
    // A toString that throws must not break a log line.
  }
  return inspect(value, 0);
};

const toJsonText = (value) => {
  try {
    return "" + JSONStringify(value);
  } catch {
    return "[Circular]";
  }
};

const formatDirective = (directive, value) => {
  switch (directive) {
    case "s": return toText(value);
    case "d": return toNumberText(value, Number);
    case "i": return toNumberText(value, NumberParseInt);
    case "f": return toNumberText(value, NumberParseFloat);
    case "j": return toJsonText(value);
    case "o": return inspect(value, DIRECTIVE_DEPTH_MAX);
    case "O": return inspect(value);
    default: return "";
  }
};

// Fills the directives of `template` from `args[1]` on; `used` counts the arguments that are consumed.
const fillTemplate = (template, args) => {
  let text = "";
  let from = 0;
  let used = 1;
  for (let at; (at = StringIndexOf(template, "%", from)) !== -1 && at + 1 < template.length; ) {
    const directive = template[at + 1];
    text += StringSlice(template, from, at);
    from = at + 2;
    if (directive === "%") text += "%";
    else if (charIsDirective(directive) && used < args.length) text += formatDirective(directive, args[used++]);
    else text += "%" + directive;
  }
  return { __proto__: null, text: text + StringSlice(template, from), used };
};

// The values from `from` on, separated by blanks.
const formatRest = (values, from) => {
  let text = "";
  for (let i = from; i < values.length && text.length <= INSPECT_CHARS_MAX; i++) {
    text += (i > from ? " " : "") + (typeof values[i] === "string" ? values[i] : inspect(values[i]));
  }
  return text;
};

const format = (args) => {
  if (typeof args[0] !== "string" || args.length === 1) return cutText(formatRest(args, 0), INSPECT_CHARS_MAX);
  const { text, used } = fillTemplate(args[0], args);
  return cutText(used < args.length ? text + " " + formatRest(args, used) : text, INSPECT_CHARS_MAX);
};

// `console.dir`: null asks for everything, as in Node.
const formatDir = (value, options) => {
  const depth = ownData(options, "depth");
  return inspect(value, depth === null ? INSPECT_DEPTH_MAX : typeof depth === "number" ? depth : undefined);
};

const durationText = (ms) => (ms >= 1000 ? NumberToFixed(ms / 1000, 3) + "s" : (+NumberToFixed(ms, 3)) + "ms");

// Frames of a console method's caller, without those of the prelude.
const callerFrames = () => {
  let stack = errorStack(new Error());
  for (let skip = 0; skip < 2; skip++) stack = StringSlice(stack, StringIndexOf(stack, "\n") + 1);
  return StringTrimEnd(stack);
};
