// Declares a name that would hide a global.
import { serve } from './wire.mjs';

serve([{ name: 'Array.from' }], () => null);
