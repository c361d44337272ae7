// `search`, `describe` and `help`. A binding whose name begins with one of these takes its place: they are
// configurable, and the accessor of a binding is defined over them.

defineUnitGlobal("search", "discover");
defineUnitGlobal("describe", "discover");
defineUnitGlobal("help", "discover");

// The name of a binding or a namespace by its value.
core.nameOfBinding = (value) => {
  const pathIn = (candidate, path) => {
    if (candidate === value) return path;
    if (typeof candidate !== "object") return undefined;
    const keys = ReflectOwnKeys(candidate);
    for (let i = 0; i < keys.length; i++) {
      const found = pathIn(candidate[keys[i]], path + "." + keys[i]);
      if (found !== undefined) return found;
    }
    return undefined;
  };
  const names = ReflectOwnKeys(slots);
  for (let i = 0; i < names.length; i++) {
    const { value: built } = slots[names[i]];
    const found = built === undefined ? undefined : pathIn(built, names[i]);
    if (found !== undefined) return found;
  }
  return undefined;
};
