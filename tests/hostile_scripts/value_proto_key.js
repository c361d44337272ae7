// value
JSON.parse("{\"__proto__\": {\"a\": 1}, \"constructor\": 1}")
