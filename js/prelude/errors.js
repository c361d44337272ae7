// Errors on their way out (what the client receives of a thrown value) and in (what a failed call throws).

const hidden = (object, key, value) =>
  ReflectDefineProperty(object, key, { __proto__: null, value, writable: true, configurable: true, enumerable: false });

const read = (object, key) => {
  try {
    return object[key];
  } catch {
    return undefined;
  }
};
// A DOMException is not an Error to QuickJS, but it is one to the code that catches it.
const isErrorLike = (value) => {
  if (ErrorIsError(value)) return true;
  try {
    DOMExceptionName(value);
    return true;
  } catch {
    return false;
  }
};
const hasOwn = (object, key) => {
  try {
    return ObjectHasOwn(object, key);
  } catch {
    return false;
  }
};
const readText = (object, key) => {
  const value = read(object, key);
  return typeof value === "string" ? value : undefined;
};
// The frames alone: those of the engine, unless the error has a stack of its own.
const stackOf = (error) => {
  const stack = ErrorIsError(error) && !hasOwn(error, "stack") ? ErrorStack(error) : readText(error, "stack");
  return typeof stack === "string" ? stack : "";
};

// "ReferenceError: foo is not defined" for an error, the value as console.log shows it for anything else.
const header = (thrown) => {
  if (!isErrorLike(thrown)) return typeof thrown === "string" ? thrown : unit("inspect").inspect(thrown);
  const name = readText(thrown, "name") ?? "Error";
  const message = readText(thrown, "message") ?? "";
  return message === "" ? name : name + ": " + message;
};
exports.thrownHeader = header;

exports.errorParts = (error) => {
  const parts = [read(error, "name"), read(error, "message"), stackOf(error)];
  for (let i = 0; i < 2; i++) if (typeof parts[i] !== "string") parts[i] = i === 0 ? "Error" : "";
  if (ObjectHasOwn(error, "cause")) parts[3] = read(error, "cause");
  return parts;
};

// Own properties of an error that are reported; more than that is data, and belongs into the value.
const PROPERTIES_MAX = 32;
const KNOWN_PROPERTIES = { __proto__: null, name: true, message: true, stack: true, cause: true };

// The data that a script has put on its error, for the client: no functions, nothing that a getter would have to answer.
const propertiesOf = (error, isAnswer, hasErrors) => {
  if (host.proxyTarget(error) !== undefined) return undefined;
  const properties = {};
  let count = 0;
  const keys = ReflectOwnKeys(error);
  for (let i = 0; i < keys.length && count < PROPERTIES_MAX; i++) {
    const key = keys[i];
    if (typeof key !== "string" || KNOWN_PROPERTIES[key] || (hasErrors && key === "errors")) continue;
    if (isAnswer && (key === "code" || key === "data")) continue;
    const descriptor = ReflectGetOwnPropertyDescriptor(error, key);
    if (!isData(descriptor) || !descriptor.enumerable) continue;
    if (descriptor.value === undefined || typeof descriptor.value === "function") continue;
    ReflectDefineProperty(properties, key, descriptor);
    count++;
  }
  return count === 0 ? undefined : properties;
};

// [header, name, message, stack, hasCause, cause, answerCode, answerData, code, errors, properties]: those of an answer
// are undefined unless a binding's answer was thrown.
exports.describeThrown = (thrown) => {
  if (!isErrorLike(thrown)) return [header(thrown), "", "", "", false];
  const parts = [header(thrown), readText(thrown, "name") ?? "Error", readText(thrown, "message") ?? "", stackOf(thrown)];
  const hasCause = hasOwn(thrown, "cause");
  parts[4] = hasCause;
  parts[5] = hasCause ? read(thrown, "cause") : undefined;
  if (WeakSetHas(bindingErrors, thrown)) {
    parts[6] = read(thrown, "code");
    parts[7] = read(thrown, "data");
  }
  const code = hasOwn(thrown, "code") ? read(thrown, "code") : undefined;
  parts[8] = typeof code === "number" ? code : undefined;
  const errors = hasOwn(thrown, "errors") ? read(thrown, "errors") : undefined;
  parts[9] = ArrayIsArray(errors) ? errors : undefined;
  parts[10] = propertiesOf(thrown, parts[6] !== undefined, parts[9] !== undefined);
  return parts;
};

// [message, stack] of a SyntaxError that the compiler threw; undefined for anything else. Nothing is looked up in a
// prototype, which a script may have changed; the prototype itself tells what QuickJS threw.
const SyntaxErrorPrototype = SyntaxError.prototype;
exports.syntaxErrorParts = (thrown) => {
  if (!ErrorIsError(thrown) || ReflectGetPrototypeOf(thrown) !== SyntaxErrorPrototype) return undefined;
  return [ObjectHasOwn(thrown, "message") ? thrown.message : "", ErrorStack(thrown)];
};

const errorClasses = {
  __proto__: null, Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError,
};
exports.makeError = (name, message, stack, hasCause, cause) => {
  const Class = errorClasses[name] ?? Error;
  const error = new Class(message ?? "");
  if (name !== undefined && Class.name !== name) hidden(error, "name", name);
  if (stack !== undefined) hidden(error, "stack", stack);
  if (hasCause) hidden(error, "cause", cause);
  return error;
};

// `stack` as V8 has it: the name and message, then the frames with the places of the code as it was sent.
exports.framesText = (frames) => (StringStartsWith(frames, "    at ") ? host.mapStack(frames) : frames);
exports.stackText = (error, frames) => {
  if (!StringStartsWith(frames, "    at ")) return frames;
  const mapped = host.mapStack(frames);
  const title = header(error);
  return mapped === "" ? title : title + "\n" + mapped;
};

exports.lookAt = (path, isBinding) => unit("diagnosis").lookAt(path, isBinding);
exports.globalNames = () => unit("diagnosis").globalNames();
