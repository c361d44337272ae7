// How an error reads: its name and message, the stack below, then extra properties, `[cause]` and `[errors]`.
// QuickJS keeps only the frames in `stack`, so the first line is put together here.

// Reads `key` of an error; a DOMException has it behind an accessor that is known to be harmless.
const errorText = (value, chain, key, domGetter) => {
  const text = chainData(chain, key);
  if (typeof text === "string") return text;
  if (text === undefined && listIndexOf(chain, DOMException.prototype) > 0) {
    try {
      return domGetter(value);
    } catch {
      // Inherits from DOMException without being one: as good as nameless.
    }
  }
  return "";
};

const errorStack = (value) => {
  try {
    if (ObjectHasOwn(value, "stack")) {
      const stack = ownData(value, "stack");
      return typeof stack === "string" ? stack : "";
    }
    const frames = ErrorStack(value);
    return typeof frames === "string" ? unit("values").framesText(frames) : "";
  } catch {
    return "";
  }
};

// `FooError` where the class says so, `Foo [TypeError]` where class and name disagree.
const errorTitle = (name, about) => {
  if (!StringEndsWith(name, "Error") || about.name === "DOMException") return name;
  const className = StringSlice(prefixOf(about, name), 0, -1);
  if (className === name) return name;
  return StringIncludes(className, name) ? className : className + " [" + name + "]";
};

const isFrames = (stack) => stack === "" || RegExpExec(/^\s*at /, stack) !== null;

const errorBase = (inspection, value, about, name, message) => {
  const stack = errorStack(value);
  let text = stack;
  if (isFrames(stack)) {
    const title = errorTitle(name === "" ? "Error" : name, about);
    const frames = StringTrimEnd(stack);
    text = (message === "" ? title : title + ": " + message) + (frames === "" ? "" : "\n" + frames);
  }
  if (!StringIncludes(text, "\n    at ")) text = "[" + text + "]";
  return inspection.indent === 0 ? text : stringReplaceAll(text, "\n", "\n" + StringRepeat(" ", inspection.indent));
};

const ALREADY_SHOWN = ["name", "message", "stack"];

const errorShape = (inspection, value, about, keys) => {
  const name = errorText(value, about.chain, "name", DOMExceptionName);
  const message = errorText(value, about.chain, "message", DOMExceptionMessage);
  const base = errorBase(inspection, value, about, name, message);
  const shown = listFilter(keys, (key) => {
    if (listIndexOf(ALREADY_SHOWN, key) === -1) return true;
    const text = ownData(value, key);
    return typeof text === "string" && !StringIncludes(base, text) && key !== "stack";
  });
  if (ObjectHasOwn(value, "cause") && listIndexOf(shown, "cause") === -1) shown[shown.length] = "cause";
  if (ArrayIsArray(ownData(value, "errors")) && listIndexOf(shown, "errors") === -1) shown[shown.length] = "errors";
  return baseShape(base, shown);
};
