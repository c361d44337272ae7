// One server is both ends here: its service greets, and this script calls it through the endpoint, as a page would.
//
// $ scomp-serve --bindings examples/holon/bindings --listen 127.0.0.1:7411
// $ scomp-serve eval --url ws://127.0.0.1:7411 examples/holon/client.js
// > { text: 'Bonjour Ada' }

await holon.serve({ method: "ui.v1.UI/Language", handler: () => ({ language: "fr" }) });

// The link dials when the server starts; a call while it is down fails immediately with code 14.
while ((await holon.peers())[0].state !== "up") await new Promise((resolve) => setTimeout(resolve, 10));

await holon.call({ peer: "greeter", method: "greeter.v1.Greeter/Hello", payload: { name: "Ada" } });
