// value
const r = new FinalizationRegistry(() => { throw new Error("late"); }); for (let i = 0; i < 1000; i++) r.register({}, i); await new Promise(r => setTimeout(r, 5)); 1
