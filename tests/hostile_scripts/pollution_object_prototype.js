// value
Object.prototype.then = function (r) { r("hijacked"); }; Object.prototype.toJSON = () => "hijacked"; Object.prototype.get = () => 1; Object.prototype.value = 7; Object.prototype.$fn = "f1"; ({ a: 1 }); delete Object.prototype.then; delete Object.prototype.get; delete Object.prototype.value; 1
