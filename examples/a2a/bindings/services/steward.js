// The agent that outsiders talk to. It puts what they want before the triad, and answers with the decision.

await a2a.register({
  name: "steward",
  onMessage: async ({ type, content }) => {
    if (type !== "message") return;
    const { result, votes } = await a2a.propose({ proposal: content.content, from: "steward" });
    const cast = Object.entries(votes).map(([member, vote]) => `${member}: ${vote}`);
    return `${result} (${cast.join(", ")})`;
  },
});
