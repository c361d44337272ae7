// value
performance.now = () => { throw 1; }; Date.now = () => { throw 1; }; console.log("x"); setTimeout(() => {}, 1); 1
