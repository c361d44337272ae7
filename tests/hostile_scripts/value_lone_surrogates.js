// value
["\ud800", { "\udc00": "\udfff\ud800" }]
