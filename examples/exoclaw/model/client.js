// An agent that is a model, with the server's bindings and code of its own as tools. The model is a stub on
// 127.0.0.1:7414 that the folder brings along, so nothing leaves this machine; MODEL_URL and ANTHROPIC_API_KEY change that.
//
// $ scomp-serve --bindings examples/exoclaw/model/bindings --listen 127.0.0.1:7413
// $ scomp-serve eval --url ws://127.0.0.1:7413 examples/exoclaw/model/client.js
// > [ 'eval -> 4', 'There are 4 things in it.', 2 ]

const { text, toolCalls } = await exoclaw.chat({
  gateway: "shop", channel: "web", account: "ada", content: "How many things are in my order?",
});
[...toolCalls.map(({ name, result }) => `${name} -> ${result}`), text, await stub.asked({})];
