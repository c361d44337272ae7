// What a script asks for by its size is checked before QuickJS is asked: what does not fit is a RangeError that the script
// can catch. Whatever else needs more memory than the session has ends the script, or costs it its context.

// Less than this is always there: past its limit a session has a reserve.
const ROOM_CHECKED_MIN = 2 ** 16;

// What an element of an array takes.
const ELEMENT_BYTES = 16;

const checkRoom = (bytes) => {
  if (bytes > ROOM_CHECKED_MIN && !host.hasRoom(bytes)) throw new RangeError("out of memory");
};

// `bytesOf(self, args)` may convert an argument, but runs nothing else of the script.
const guardSize = (prototype, name, bytesOf) => {
  const native = prototype[name];
  const guarded = {
    sized() {
      checkRoom(bytesOf(this, arguments));
      return ReflectApply(native, this, arguments);
    },
  }.sized;
  ReflectDefineProperty(guarded, "name", { __proto__: null, value: name, configurable: true });
  ReflectDefineProperty(guarded, "length", { __proto__: null, value: native.length, configurable: true });
  defineHidden(prototype, name, guarded);
};

// A text is as long as its characters, at least.
const textBytes = (self, args, perUnit) => {
  if (typeof self !== "string" || args.length === 0) return 0;
  args[0] = +args[0];
  return args[0] * (perUnit ? self.length : 1);
};
guardSize(String.prototype, "repeat", (self, args) => textBytes(self, args, true));
guardSize(String.prototype, "padStart", (self, args) => textBytes(self, args, false));
guardSize(String.prototype, "padEnd", (self, args) => textBytes(self, args, false));

const { isArray: isArrayItself } = Array;

// Only an array with a hole at its end grows when it is filled, and an object that is not one.
const fillBytes = (self) => {
  if (isArrayItself(self)) {
    return self.length > 0 && !ObjectHasOwn(self, self.length - 1) ? self.length * ELEMENT_BYTES : 0;
  }
  const length = walkLength(self);
  return length === Infinity ? 0 : length * ELEMENT_BYTES;
};
guardSize(Array.prototype, "fill", fillBytes);

const { construct: ReflectConstruct } = Reflect;

const newLength = (self, args) => {
  if (args.length === 0) return 0;
  args[0] = +args[0];
  return args[0];
};
guardSize(ArrayBuffer.prototype, "resize", newLength);
guardSize(ArrayBuffer.prototype, "transfer", newLength);
guardSize(ArrayBuffer.prototype, "transferToFixedLength", newLength);

// A constructor behind a proxy is itself in every other respect: its name, its statics, what inherits from it.
const guardConstructor = (name, unitBytes) => {
  const native = globalThis[name];
  const traps = {
    __proto__: null,
    construct(target, args, newTarget) {
      const first = args[0];
      if (typeof first === "number") checkRoom(first * unitBytes);
      else if (isArrayItself(first)) checkRoom(first.length * unitBytes);
      return ReflectConstruct(target, args, newTarget === guarded ? target : newTarget);
    },
  };
  const guarded = new Proxy(native, traps);
  defineHidden(native.prototype, "constructor", guarded);
  defineGlobal(name, guarded);
};
guardConstructor("ArrayBuffer", 1);
guardConstructor("SharedArrayBuffer", 1);
const VIEWS = [
  "Int8Array", "Uint8Array", "Uint8ClampedArray", "Int16Array", "Uint16Array", "Int32Array", "Uint32Array",
  "BigInt64Array", "BigUint64Array", "Float16Array", "Float32Array", "Float64Array",
];
for (let i = 0; i < VIEWS.length; i++) guardConstructor(VIEWS[i], globalThis[VIEWS[i]].BYTES_PER_ELEMENT);
