// value
[NaN, -1, Infinity, 1e308, 2 ** 53, 2 ** 64, "5", null, undefined, {}, [], true].forEach(d => { clearTimeout(d); clearInterval(d); }); 1
