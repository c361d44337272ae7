// Small globals: crypto, Math.random, performance, queueMicrotask, reportError, and other names of the global object.

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

// QuickJS seeds its own Math.random with the time at which the context was made. This one takes its numbers from the
// host, as crypto does, so that a test can choose them all. A call into the host costs several times a call of
// Math.random, so the host is asked for many words at a time, when the first is needed.
const RANDOM_WORDS = 256;
let randomWords;
let randomWordsLeft = 0;

// An arrow function has no `prototype` and cannot be constructed, like the built-in.
const random = () => {
  if (randomWordsLeft === 0) {
    randomWords = new Int32Array(host.randomBytes(RANDOM_WORDS * 4));
    randomWordsLeft = RANDOM_WORDS;
  }
  randomWordsLeft -= 2;
  // All 32 bits of one word and 21 of the next, as a multiple of 2^-53 in [-0.5, 0.5), moved to [0, 1). QuickJS handles
  // signed words faster, and computes a power each time it is used.
  const low = randomWords[randomWordsLeft + 1] >>> 11;
  return (randomWords[randomWordsLeft] * 0x20_0000 + low) / 0x20_0000_0000_0000 + 0.5;
};
defineHidden(Math, "random", random);

// A copy of this context must not repeat the numbers of the original: after this, each asks its host for its own.
exports.forgetRandomWords = () => {
  randomWords = undefined;
  randomWordsLeft = 0;
};

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

// As workers and Node name it. A binding may take these names: they can be redefined.
defineGlobal("self", globalThis);
defineGlobal("global", globalThis);
