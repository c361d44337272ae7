// One server is both ends here: a service script is the agent, and this script chats with it through the gateway.
//
// $ scomp-serve --bindings examples/exoclaw/script/bindings --listen 127.0.0.1:7412
// $ scomp-serve eval --url ws://127.0.0.1:7412 examples/exoclaw/script/client.js
// > text Which order?
// > tool_use { id: 'look-1', input: { id: 'o_001' }, name: 'getOrder' }
// > text Order o_001
// > text  is 142.5 (turn 2).
// > Order o_001 is 142.5 (turn 2).

const message = (content) => ({
  gateway: "shop", channel: "shop", account: "ada", content,
  onEvent: ({ event, data }) => { if (event === "text" || event === "tool_use") console.log(event, data); },
});

await exoclaw.chat(message("Where is it?"));
(await exoclaw.chat(message("I mean o_001"))).text;
