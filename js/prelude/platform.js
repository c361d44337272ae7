// Small globals: crypto, performance, queueMicrotask, reportError.

// Most bytes one getRandomValues call may ask for; the Web Crypto specification sets it.
const RANDOM_BYTES_MAX = 65_536;

const isIntegerArray = (name) => name !== undefined && !StringStartsWith(name, "Float");

const crypto = {};
defineHidden(crypto, "getRandomValues", function getRandomValues(array) {
  if (!isIntegerArray(TypedArrayName(array))) {
    throw new DOMException("getRandomValues: an integer typed array is required", "TypeMismatchError");
  }
  const length = TypedArrayByteLength(array);
  if (length > RANDOM_BYTES_MAX) {
    throw new DOMException("getRandomValues: more than " + RANDOM_BYTES_MAX + " bytes", "QuotaExceededError");
  }
  const target = new Uint8Array(TypedArrayBuffer(array), TypedArrayByteOffset(array), length);
  TypedArraySet(target, new Uint8Array(host.randomBytes(length)));
  return array;
});
defineHidden(crypto, "randomUUID", function randomUUID() {
  return host.randomUUID();
});
defineTag(crypto, "Crypto");
defineGlobal("crypto", crypto);

const performance = {};
defineHidden(performance, "now", function now() {
  return host.now();
});
// A getter, because the context may have been made before its session began.
ReflectDefineProperty(performance, "timeOrigin", { __proto__: null, get: () => host.timeOrigin(), enumerable: true });
defineTag(performance, "Performance");
defineGlobal("performance", performance);

// `await undefined` asks no prototype and no species, which `Promise.prototype.then` would; what the callback
// throws rejects the promise of this function, and so becomes an unhandled rejection.
const runMicrotask = async (callback) => {
  await undefined;
  callback();
};
defineGlobal("queueMicrotask", function queueMicrotask(callback) {
  if (typeof callback !== "function") throw new TypeError("queueMicrotask: the callback must be a function");
  runMicrotask(callback);
});

defineGlobal("reportError", function reportError(error) {
  requireArguments(arguments.length, 1, "reportError");
  host.reportError(error);
});
