// value
const a = [1]; a[1000] = 2; a.length
