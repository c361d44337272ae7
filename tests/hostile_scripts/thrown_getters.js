// EvalError
throw { get message() { throw 1; }, get name() { throw 2; }, get stack() { throw 3; }, get cause() { throw 4; }, get code() { throw 5; }, get data() { throw 6; }, toString() { throw 7; } }
