// TextEncoder and TextDecoder. The conversions are the host's; here are the labels, the byte order mark, and the
// bytes that a streaming decoder keeps until the rest of a character arrives.

// Taken from the core.
const {
  ArrayBuffer, RangeError, String, StringCharCodeAt, StringSlice, StringToLowerCase, StringTrim, TypeError,
  TypedArrayBuffer, TypedArrayByteOffset, TypedArrayLength, TypedArrayName, TypedArraySet, Uint8Array,
  Uint8ArrayToBase64, bytesOf, defineTag, defineView, host, listIndexOf, newBytes, toUSVString,
} = core;

const ENCODING_LABELS = {
  __proto__: null,
  "utf-8": ["utf-8", "utf8", "unicode-1-1-utf-8", "unicode11utf8", "unicode20utf8", "x-unicode20utf8"],
  "utf-16le": ["utf-16le", "utf-16", "ucs-2", "unicode", "iso-10646-ucs-2", "csunicode", "unicodefeff"],
  "windows-1252": [
    "windows-1252", "latin1", "latin-1", "ascii", "us-ascii", "iso-8859-1", "iso8859-1", "iso_8859-1", "iso88591", "l1",
    "cp1252", "x-cp1252", "cp819", "ibm819", "ansi_x3.4-1968", "csisolatin1", "iso-ir-100",
  ],
};

const encodingOfLabel = (label) => {
  const wanted = StringToLowerCase(StringTrim(String(label)));
  for (const encoding in ENCODING_LABELS) {
    if (listIndexOf(ENCODING_LABELS[encoding], wanted) !== -1) return encoding;
  }
  throw new RangeError("The encoding '" + wanted + "' is not supported");
};

// How many of the last of `length` bytes begin a UTF-8 character that is not complete yet.
const utf8TailLength = (bytes, length) => {
  for (let back = 1; back <= 3 && back <= length; back++) {
    const byte = bytes[length - back];
    if ((byte & 0xc0) === 0x80) continue;
    const needed = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return needed > back ? back : 0;
  }
  return 0;
};

const utf16TailLength = (bytes, length) => {
  const odd = length % 2;
  const high = length - odd - 1;
  const endsInHighSurrogate = high > 0 && (bytes[high] & 0xfc) === 0xd8;
  return odd + (endsInHighSurrogate ? 2 : 0);
};

const TAIL_LENGTHS = { __proto__: null, "utf-8": utf8TailLength, "utf-16le": utf16TailLength, "windows-1252": () => 0 };

const joinBytes = (first, second) => {
  const joined = new Uint8Array(TypedArrayLength(first) + TypedArrayLength(second));
  TypedArraySet(joined, first);
  TypedArraySet(joined, second, TypedArrayLength(first));
  return joined;
};

// Reads how many UTF-16 units of `text` fit into `room` bytes of UTF-8, never half a character.
const unitsThatFit = (text, room) => {
  let read = 0;
  for (let used = 0; read < text.length; ) {
    const code = StringCharCodeAt(text, read);
    const isPair = code >= 0xd800 && code <= 0xdbff;
    used += code < 0x80 ? 1 : code < 0x800 ? 2 : isPair ? 4 : 3;
    if (used > room) break;
    read += isPair ? 2 : 1;
  }
  return read;
};

class TextEncoder {
  get encoding() {
    return "utf-8";
  }
  encode(text = "") {
    return new Uint8Array(host.utf8Encode(toUSVString(text)));
  }
  encodeInto(source, destination) {
    if (TypedArrayName(destination) !== "Uint8Array") {
      throw new TypeError("encodeInto: the destination must be a Uint8Array");
    }
    const text = toUSVString(source);
    const read = unitsThatFit(text, TypedArrayLength(destination));
    const bytes = new Uint8Array(host.utf8Encode(StringSlice(text, 0, read)));
    TypedArraySet(destination, bytes);
    return { read, written: TypedArrayLength(bytes) };
  }
}
defineTag(TextEncoder.prototype, "TextEncoder");
exports.TextEncoder = TextEncoder;

let isDecoder;
let describeDecoder;

class TextDecoder {
  #encoding;
  #fatal;
  #ignoreBOM;
  #tail = new Uint8Array(0);
  #atStart = true;

  static {
    isDecoder = (value) => #encoding in value;
    describeDecoder = (decoder) => [
      "encoding", decoder.#encoding, "fatal", decoder.#fatal, "ignoreBOM", decoder.#ignoreBOM,
    ];
  }

  constructor(label = "utf-8", options = undefined) {
    this.#encoding = encodingOfLabel(label);
    this.#fatal = !!options?.fatal;
    this.#ignoreBOM = !!options?.ignoreBOM;
  }
  get encoding() {
    return this.#encoding;
  }
  get fatal() {
    return this.#fatal;
  }
  get ignoreBOM() {
    return this.#ignoreBOM;
  }
  decode(input = undefined, options = undefined) {
    const source = input === undefined ? newBytes(new ArrayBuffer(0), 0, 0) : bytesOf(input);
    if (source === undefined) throw new TypeError("decode: the input must be an ArrayBuffer or a view of one");
    const isStream = !!options?.stream;
    let bytes = new Uint8Array(source.buffer, source.offset, source.length);
    if (TypedArrayLength(this.#tail) > 0) bytes = joinBytes(this.#tail, bytes);
    const length = TypedArrayLength(bytes);
    const kept = isStream ? TAIL_LENGTHS[this.#encoding](bytes, length) : 0;
    const text = this.#convert(bytes, length - kept);
    this.#tail = new Uint8Array(kept);
    for (let i = 0; i < kept; i++) this.#tail[i] = bytes[length - kept + i];
    return this.#withoutMark(text, isStream);
  }
  #convert(bytes, length) {
    const whole = new Uint8Array(TypedArrayBuffer(bytes), TypedArrayByteOffset(bytes), length);
    const text = host.decode(this.#encoding, Uint8ArrayToBase64(whole), this.#fatal);
    if (text !== undefined) return text;
    this.#tail = new Uint8Array(0);
    this.#atStart = true;
    throw new TypeError("The encoded data was not valid for encoding " + this.#encoding);
  }
  #withoutMark(text, isStream) {
    // windows-1252 cannot spell the mark, so the encoding need not be checked.
    const hasMark = this.#atStart && !this.#ignoreBOM && StringCharCodeAt(text, 0) === 0xfeff;
    this.#atStart = !isStream || (this.#atStart && text === "");
    return hasMark ? StringSlice(text, 1) : text;
  }
}
defineTag(TextDecoder.prototype, "TextDecoder");
defineView(TextDecoder.prototype, isDecoder, ": ", describeDecoder);
exports.TextDecoder = TextDecoder;
