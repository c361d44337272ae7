// Three agents who decide together. What `onMessage` returns for a proposal is the vote.

const opinions = {
  alpha: (proposal) => (proposal.includes("test") ? "approve" : "reject"),
  beta: () => ({ vote: "approve", reasoning: "it is on the roadmap" }),
  charlie: (proposal) => (proposal.length < 40 ? "approve" : "abstain"),
};

for (const [name, opinion] of Object.entries(opinions)) {
  await a2a.register({
    name,
    onMessage: ({ type, content }) => (type === "proposal" ? opinion(content.proposal) : undefined),
  });
}
