// Two sessions share a document: one watches it, both write, and a conflict is resolved.
//
// $ scomp-serve --bindings examples/memory/bindings --listen 127.0.0.1:7414
// $ scomp-serve eval --url ws://127.0.0.1:7414 examples/memory/client.js
// > {
// >   refused: 'ConflictError',
// >   resolved: { votes: 3, by: [ 'near', 'far', 'near' ] },
// >   watched: { by: [ 'near', 'far', 'near' ], votes: 3 }
// > }

// One session is in the embedded store; the other comes to the same store over the wire, as another server would.
const [here, there] = [{ space: "team" }, { space: "team", peer: "self" }];
const [near, far] = [{ ...here, id: "of:poll" }, { ...there, id: "of:poll" }];
const pause = () => new Promise((resolve) => setTimeout(resolve, 10));
while (!(await memory.open(there).then(() => true, () => false))) await pause();

let watched;
const roots = [{ id: near.id, selector: { path: [], schema: false } }];
const watch = await memory.watch({
  ...there,
  watches: [{ id: "poll", kind: "graph", query: { roots } }],
  onSync: ({ upserts }) => { watched = upserts[0].doc.value; },
});

const vote = (by) => (poll) => ({ votes: (poll?.votes ?? 0) + 1, by: [...(poll?.by ?? []), by] });
const before = await memory.update({ ...near, fn: vote("near") });
await memory.update({ ...far, fn: vote("far") });

// A commit that says what it read is refused once that has changed …
const refused = await memory.transact({
  ...here,
  operations: [{ op: "set", id: near.id, value: { value: vote("near")(before.value) } }],
  reads: [{ id: near.id, path: ["value"], seq: before.seq }],
}).then(() => "written", (error) => error.name);

// … and `update` reads again and tries again, until it is accepted.
const { value: resolved } = await memory.update({ ...near, fn: vote("near") });
while (watched?.votes !== 3) await pause();
await watch.unwatch();
({ refused, resolved, watched });
