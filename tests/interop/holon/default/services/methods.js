// Serves the methods that the test vectors of holon-web call.

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const TIMEOUT = 4;
const UNAVAILABLE = 14;

// Calls the page back, and returns its result, its error, or that there was no response.
async function callClient({ payload: { method, payload, timeoutMs }, peer }) {
  try {
    const result = await peer.call(method, payload, { timeoutMs });
    return { result, resultWasNil: result === null };
  } catch (error) {
    if (error.code === TIMEOUT || error.code === UNAVAILABLE) return { goError: error.message };
    return { webError: { code: error.code, message: error.message } };
  }
}

const methods = {
  "echo.v1.Echo/Ping": ({ payload }) => payload,
  "test.v1.Test/Null": () => null,
  "test.v1.Test/Nil": () => null,
  "test.v1.Test/Fail": () => {
    throw Object.assign(new Error("nope"), { code: 5 });
  },
  "test.v1.Test/FailPlain": () => {
    throw new Error("plain failure");
  },
  "test.v1.Test/BadJSON": () => ({ unserializable: 1n }),
  "test.v1.Test/Sleep": async ({ payload: { ms } }) => {
    await sleep(ms);
    return { slept: ms };
  },
  "test.v1.Test/CallClient": callClient,
};

for (const [method, handler] of Object.entries(methods)) await holon.serve({ method, handler });
