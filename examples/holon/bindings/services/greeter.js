// Serves a method to every peer that connects to /holon. Before it answers it calls the caller back, on the same
// connection.

await holon.serve({
  method: "greeter.v1.Greeter/Hello",
  handler: async ({ payload, peer }) => {
    const { language } = await peer.call("ui.v1.UI/Language", {});
    return { text: language === "fr" ? `Bonjour ${payload.name}` : `Hello ${payload.name}` };
  },
});
