// Unserializable
const make = () => ({ get a() { return make(); } }); make()
