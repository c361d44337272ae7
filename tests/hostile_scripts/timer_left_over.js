// value
setInterval(() => { for (;;) ; }, 0); 1
