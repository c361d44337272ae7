// Unserializable EvalError
const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); proxy
