// value EvalError
({ then(r) { r({ then(r) { r(5); } }); } })
