// Takes calls and never answers them.
import { serve } from './wire.mjs';

serve([{ name: 'child.hang' }], () => new Promise(() => {}));
