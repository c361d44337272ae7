// value Unserializable
(function () { return arguments; })(1, 2)
