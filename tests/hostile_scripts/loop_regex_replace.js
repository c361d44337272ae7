// Timeout
"a".repeat(50).replace(/(a*)*$|b/g, "") + "a".repeat(35).replace(/(a|aa)+$(?!)/, "")
