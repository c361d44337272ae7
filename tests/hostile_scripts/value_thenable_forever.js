// Timeout value
const t = { then(r) { r(t); } }; t
