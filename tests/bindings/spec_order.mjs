// The declaration of the specification, whose definition is missing, and answers that are malformed.
import { serve } from './wire.mjs';

serve([{
  name: 'getOrder',
  input: { type: 'object', properties: { id: { type: 'string' } }, required: ['id'] },
  output: { oneOf: [{ $ref: '#/$defs/Order' }, { type: 'null' }] },
  effects: ['read'],
}, { name: 'child.malformed' }], ({ binding, input }) => (
  binding === 'getOrder' ? { id: input.id, total: 142.5 } : { at: { $date: 'nope' } }
));
