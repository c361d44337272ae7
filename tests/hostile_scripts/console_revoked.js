// value EvalError
const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); console.log(proxy, [proxy], { proxy }); 1
