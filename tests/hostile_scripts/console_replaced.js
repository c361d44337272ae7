// value
console.log = () => { throw 1; }; globalThis.console = null; 1
