// value
[new Date(8.64e15).getTime(), new Date(NaN).getTime(), Date.parse("x".repeat(1e5)), new Date(2 ** 60).getTime()].map(String)
