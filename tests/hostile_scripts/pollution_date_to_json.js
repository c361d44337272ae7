// value
Date.prototype.toJSON = () => "stolen"; Date.prototype.toISOString = () => "stolen"; new Date(0)
