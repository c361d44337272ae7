// Event, CustomEvent and EventTarget, for a tree of one node: there is no propagation path to walk.
// An error in a listener is reported to the host and does not reach the one who dispatches.

// Taken from the core.
const {
  DOMException, ReflectApply, ReflectDefineProperty, String, TypeError, defineTag, defineView, forEachItem, host,
  isObject, listFilter, newList, requireArguments, startTimer,
} = core;

let dispatchTo;

class Event {
  #type;
  #bubbles;
  #cancelable;
  #composed;
  #timeStamp = host.now();
  #target = null;
  #current = null;
  #stopped = false;
  #stoppedNow = false;
  #prevented = false;

  static {
    // Runs `deliver(type, isStopped)` with the event pointing at its target; false if the default was prevented.
    dispatchTo = (event, target, deliver) => {
      if (event.#current !== null) throw new DOMException("The event is already being dispatched", "InvalidStateError");
      event.#target = target;
      event.#current = target;
      deliver(event.#type, () => event.#stoppedNow);
      event.#current = null;
      event.#stopped = false;
      event.#stoppedNow = false;
      return !event.#prevented;
    };
  }

  constructor(type, init = undefined) {
    requireArguments(arguments.length, 1, "Event");
    this.#type = String(type);
    this.#bubbles = !!init?.bubbles;
    this.#cancelable = !!init?.cancelable;
    this.#composed = !!init?.composed;
  }
  get type() { return this.#type; }
  get bubbles() { return this.#bubbles; }
  get cancelable() { return this.#cancelable; }
  get composed() { return this.#composed; }
  get timeStamp() { return this.#timeStamp; }
  get target() { return this.#target; }
  get srcElement() { return this.#target; }
  get currentTarget() { return this.#current; }
  get eventPhase() { return this.#current === null ? 0 : 2; }
  get defaultPrevented() { return this.#prevented; }
  get returnValue() { return !this.#prevented; }
  get isTrusted() { return false; }
  get cancelBubble() { return this.#stopped; }
  set cancelBubble(value) { if (value) this.#stopped = true; }
  preventDefault() { if (this.#cancelable) this.#prevented = true; }
  stopPropagation() { this.#stopped = true; }
  stopImmediatePropagation() { this.#stopped = this.#stoppedNow = true; }
  composedPath() { return this.#current === null ? [] : [this.#current]; }
}
const PHASES = ["NONE", "CAPTURING_PHASE", "AT_TARGET", "BUBBLING_PHASE"];
for (let i = 0; i < PHASES.length; i++) {
  const constant = { __proto__: null, value: i, enumerable: true };
  ReflectDefineProperty(Event, PHASES[i], constant);
  ReflectDefineProperty(Event.prototype, PHASES[i], constant);
}

class CustomEvent extends Event {
  #detail;
  constructor(type, init = undefined) {
    super(type, init);
    this.#detail = init?.detail ?? null;
  }
  get detail() { return this.#detail; }
}

const captureOf = (options) => (isObject(options) ? !!options.capture : !!options);

class EventTarget {
  #listeners = newList();

  addEventListener(type, callback, options = undefined) {
    requireArguments(arguments.length, 2, "addEventListener");
    type = String(type);
    if (callback === null || callback === undefined) return;
    if (!isObject(callback)) throw new TypeError("addEventListener: the listener must be a function or an object");
    const capture = captureOf(options);
    const signal = isObject(options) ? options.signal : undefined;
    if (signal?.aborted || this.#find(type, callback, capture) !== -1) return;
    const once = isObject(options) && !!options.once;
    const listener = { __proto__: null, type, callback, capture, once, isRemoved: false };
    this.#listeners[this.#listeners.length] = listener;
    signal?.addEventListener("abort", () => this.#remove(listener), { __proto__: null, once: true });
  }
  removeEventListener(type, callback, options = undefined) {
    requireArguments(arguments.length, 2, "removeEventListener");
    const at = this.#find(String(type), callback, captureOf(options));
    if (at !== -1) this.#remove(this.#listeners[at]);
  }
  dispatchEvent(event) {
    // Listeners added while dispatching wait for the next event, so this works on the list as it is now.
    const listeners = this.#listeners;
    const { length } = listeners;
    return dispatchTo(event, this, (type, isStopped) => {
      for (let i = 0; i < length && !isStopped(); i++) {
        const listener = listeners[i];
        if (listener.type === type && !listener.isRemoved) this.#call(listener, event);
      }
    });
  }
  #call(listener, event) {
    if (listener.once) this.#remove(listener);
    const { callback } = listener;
    try {
      if (typeof callback === "function") ReflectApply(callback, this, [event]);
      else ReflectApply(callback.handleEvent, callback, [event]);
    } catch (error) {
      host.reportError(error);
    }
  }
  #find(type, callback, capture) {
    for (let i = 0; i < this.#listeners.length; i++) {
      const listener = this.#listeners[i];
      if (listener.type === type && listener.callback === callback && listener.capture === capture) return i;
    }
    return -1;
  }
  // Makes a new list: a dispatch that is under way goes on with the old one.
  #remove(listener) {
    listener.isRemoved = true;
    this.#listeners = listFilter(this.#listeners, (other) => other !== listener);
  }
}
defineTag(Event.prototype, "Event");
defineTag(CustomEvent.prototype, "CustomEvent");
defineTag(EventTarget.prototype, "EventTarget");

exports.Event = Event;
exports.CustomEvent = CustomEvent;
exports.EventTarget = EventTarget;
