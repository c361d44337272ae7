// value
let n = 0; await new Promise(r => { const t = setInterval(() => { if (++n > 100) { clearInterval(t); r(); } }, 0); }); n
