// A script asks the steward, an agent that asks the triad, which is three agents more. `reference_client.cjs` beside this
// does the same from outside, as the specification's own client does.
//
// $ scomp-serve --bindings examples/a2a/bindings --listen 127.0.0.1:7412
// $ scomp-serve eval --url ws://127.0.0.1:7412 examples/a2a/client.js
// > [
// >   'approved (alpha: approve, beta: approve, charlie: approve)',
// >   'rejected (alpha: reject, beta: approve, charlie: abstain)'
// > ]

// The services register their agents when the server starts.
while ((await a2a.status({ agent: "steward" })) !== "online") await new Promise((done) => setTimeout(done, 10));

const proposals = ["Write a test first", "Rewrite everything from the ground up by Friday"];
const answers = [];
for (const content of proposals) answers.push((await a2a.request({ agent: "steward", content })).content.content);
answers;
