// How a script finds its way among its bindings, loaded when one of the globals is first named.

const { ArrayIsArray, String, TypeError, host, nameOfBinding, newList } = core;

const ask = (name, input) => host.call(name, 1, input);

// A name, or a binding or namespace itself.
const nameOf = (value) => {
  if (typeof value === "string") return value;
  const name = nameOfBinding(value);
  if (name === undefined) throw new TypeError("expected the name of a binding, or a binding");
  return name;
};

const namesOf = (values) => {
  const names = newList();
  if (!ArrayIsArray(values)) {
    names[0] = nameOf(values);
    return names;
  }
  for (let i = 0; i < values.length; i++) names[i] = nameOf(values[i]);
  return names;
};

// The bindings that fit some words best, as `{name, description}`.
exports.search = async function search(query) {
  return ask("bindings.search", { __proto__: null, query: String(query) });
};

// The TypeScript of bindings, by names or namespaces.
exports.describe = async function describe(names) {
  return ask("bindings.describe", { __proto__: null, names: namesOf(names) });
};

// A line for each binding of a namespace; without an argument, an overview.
exports.help = async function help(names) {
  return ask("bindings.help", { __proto__: null, names: names === undefined ? newList() : namesOf(names) });
};
