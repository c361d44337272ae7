// value
[NaN, -1, Infinity, -Infinity, 1e308, 2 ** 31, "5", null, undefined, {}, [], -0].forEach(d => clearTimeout(setTimeout(() => {}, d))); setTimeout(() => {}, 1e308); setTimeout(() => {}, Number.MAX_SAFE_INTEGER); 1
