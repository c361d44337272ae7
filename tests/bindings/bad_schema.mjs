// Declares an invalid schema.
import { serve } from './wire.mjs';

serve([{ name: 'child.bad', input: { type: 'strng' } }], () => null);
