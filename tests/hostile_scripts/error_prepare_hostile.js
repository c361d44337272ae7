// value Timeout
// What `prepareStackTrace` gets and returns may refer to itself, throw, or never end.
const { proxy, revoke } = Proxy.revocable(() => 1, {});
const hostile = [(error, frames) => ({ error, frames }), (error, frames) => frames.push(error, frames) && frames,
  () => { throw new Error("inside"); }, proxy, class {}, function* () {}, async () => {}];
revoke();
for (const prepare of hostile) {
  Error.prepareStackTrace = prepare;
  try { null.x } catch (error) { error.stack; }
  Error.captureStackTrace({});
}
Error.prepareStackTrace = () => { for (;;); };
new Error();
1
