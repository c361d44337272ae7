// value
({ a: { then(r) { r(1); } } })
