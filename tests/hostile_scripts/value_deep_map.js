// Unserializable
let o = new Map(); for (let i = 0; i < 50000; i++) o = new Map([[o, o]]); o
