// AbortController and AbortSignal.

const { addEventListener, dispatchEvent, removeEventListener } = EventTarget.prototype;
const abortError = () => new DOMException("This operation was aborted", "AbortError");
// Only this file can construct a signal.
const secret = {};

let abortSignal;
let isSignal;
let follow;
let isAborted;

class AbortSignal extends EventTarget {
  #aborted = false;
  #reason = undefined;
  #onabort = null;
  #followers = newList();

  static {
    isSignal = (value) => isObject(value) && #aborted in value;
    isAborted = (signal) => signal.#aborted;
    follow = (source, follower) => (source.#followers[source.#followers.length] = follower);
    abortSignal = (signal, reason) => {
      if (signal.#aborted) return;
      signal.#aborted = true;
      signal.#reason = reason === undefined ? abortError() : reason;
      const followers = signal.#followers;
      signal.#followers = newList();
      ReflectApply(dispatchEvent, signal, [new Event("abort")]);
      for (let i = 0; i < followers.length; i++) abortSignal(followers[i], signal.#reason);
    };
  }

  constructor(key) {
    if (key !== secret) throw new TypeError("Illegal constructor");
    super();
  }
  get aborted() { return this.#aborted; }
  get reason() { return this.#reason; }
  get onabort() { return this.#onabort; }
  set onabort(handler) {
    if (this.#onabort !== null) ReflectApply(removeEventListener, this, ["abort", this.#onabort]);
    this.#onabort = typeof handler === "function" ? handler : null;
    if (this.#onabort !== null) ReflectApply(addEventListener, this, ["abort", this.#onabort]);
  }
  throwIfAborted() {
    if (this.#aborted) throw this.#reason;
  }
  static abort(reason = undefined) {
    const signal = new AbortSignal(secret);
    abortSignal(signal, reason);
    return signal;
  }
  static timeout(delay) {
    requireArguments(arguments.length, 1, "AbortSignal.timeout");
    const signal = new AbortSignal(secret);
    const timeoutError = () => new DOMException("The operation was aborted due to timeout", "TimeoutError");
    const fire = () => abortSignal(signal, timeoutError());
    startTimer("AbortSignal.timeout", fire, delay, [], false);
    return signal;
  }
  static any(signals) {
    requireArguments(arguments.length, 1, "AbortSignal.any");
    const combined = new AbortSignal(secret);
    forEachItem(signals, (signal) => {
      if (!isSignal(signal)) throw new TypeError("AbortSignal.any: each item must be an AbortSignal");
      if (signal.#aborted) abortSignal(combined, signal.#reason);
      else if (!combined.#aborted) follow(signal, combined);
    });
    return combined;
  }
}

let isController;
let signalOf;

class AbortController {
  #signal = new AbortSignal(secret);

  static {
    isController = (value) => #signal in value;
    signalOf = (controller) => controller.#signal;
  }

  get signal() { return this.#signal; }
  abort(reason = undefined) { abortSignal(this.#signal, reason); }
}
defineTag(AbortSignal.prototype, "AbortSignal");
defineTag(AbortController.prototype, "AbortController");

defineView(AbortController.prototype, isController, ": ", (controller) => ["signal", signalOf(controller)]);
defineView(AbortSignal.prototype, isSignal, ": ", (signal) => ["aborted", isAborted(signal)]);

exports.AbortController = AbortController;
exports.AbortSignal = AbortSignal;
