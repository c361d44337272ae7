// Declares a schema that is none.
import { serve } from './wire.mjs';

serve([{ name: 'child.bad', input: { type: 'strng' } }], () => null);
