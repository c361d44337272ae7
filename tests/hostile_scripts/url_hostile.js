// value EvalError
const out = []; for (const u of ["http://" + "a".repeat(1e5), "http://[::1", "//", "http://a:99999999", "javascript:1", "http://\ud800/", "http://xn--" + "a".repeat(5000)]) { try { out.push(new URL(u).href.length); } catch (e) { out.push(e.name); } } out
