// value MemoryLimit Timeout
const r = new FinalizationRegistry(() => { for (;;) {} }); for (let i = 0; i < 1000; i++) r.register({}, i); 1
