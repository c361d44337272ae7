// URL. Parsing and every setter are the host's (the WHATWG algorithm); the object keeps the parts it answers with.

const URL_PARTS = [
  "href", "origin", "protocol", "username", "password", "host", "hostname", "port", "pathname", "search", "hash",
];
const URL_READ_ONLY = "origin";

const parse = (input, base) => host.urlParse(toUSVString(input), base === undefined ? undefined : toUSVString(base));

let isURL;
let readPart;
let writePart;

class URL {
  #parts;
  #searchParams = undefined;

  static {
    isURL = (value) => #parts in value;
    readPart = (url, index) => url.#parts[index];
    writePart = (url, index, value) => {
      const parts = index === 0 ? host.urlParse(value, undefined) : host.urlSet(url.#parts[0], URL_PARTS[index], value);
      if (parts === undefined) {
        if (index === 0) throw new TypeError("Invalid URL");
        return;
      }
      url.#parts = parts;
      if (url.#searchParams !== undefined) relink(url.#searchParams, StringSlice(parts[9], 1));
    };
  }

  constructor(input, base = undefined) {
    requireArguments(arguments.length, 1, "URL");
    this.#parts = parse(input, base);
    if (this.#parts === undefined) throw new TypeError("Invalid URL");
  }
  static canParse(input, base = undefined) {
    requireArguments(arguments.length, 1, "URL.canParse");
    return parse(input, base) !== undefined;
  }
  static parse(input, base = undefined) {
    requireArguments(arguments.length, 1, "URL.parse");
    return parse(input, base) === undefined ? null : new URL(input, base);
  }
  get searchParams() {
    return (this.#searchParams ??= newLinked(this.#parts[9], () => {
      const text = host.formSerialize(pairsIn(this.#searchParams));
      this.#parts = host.urlSet(this.#parts[0], "search", text) ?? this.#parts;
    }));
  }
  toString() {
    return this.#parts[0];
  }
  toJSON() {
    return this.#parts[0];
  }
}

const addField = (fields, name, value) => {
  fields[fields.length] = name;
  fields[fields.length] = value;
};

const definePart = (name, index) =>
  ReflectDefineProperty(URL.prototype, name, {
    __proto__: null,
    get() {
      return readPart(this, index);
    },
    set: name === URL_READ_ONLY ? undefined : function (value) {
      writePart(this, index, toUSVString(value));
    },
    enumerable: false,
    configurable: true,
  });
for (let i = 0; i < URL_PARTS.length; i++) definePart(URL_PARTS[i], i);
defineTag(URL.prototype, "URL");
defineView(URL.prototype, isURL, ": ", (url) => {
  const fields = newList();
  for (let i = 0; i < URL_PARTS.length; i++) {
    if (i === 10) addField(fields, "searchParams", newLinked(readPart(url, 9), undefined));
    addField(fields, URL_PARTS[i], readPart(url, i));
  }
  return fields;
});

exports.URL = URL;
