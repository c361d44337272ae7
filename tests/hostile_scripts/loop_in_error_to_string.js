// Timeout EvalError
throw { toString() { for (;;) {} }, get name() { for (;;) {} }, get message() { for (;;) {} }, get stack() { for (;;) {} } };
