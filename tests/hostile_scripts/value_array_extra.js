// value
const a = [1]; a.x = 2; a
