// Answers a call with a line that does not end.
import { serve } from './wire.mjs';

const pour = () => { while (process.stdout.write('x'.repeat(1 << 20))); process.stdout.once('drain', pour); };

serve([{ name: 'child.flood' }], () => { pour(); return new Promise(() => {}); });
