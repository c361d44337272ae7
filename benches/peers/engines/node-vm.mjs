// node:vm: a context of its own in the server's heap. It isolates names, not code that wants out.
import vm from 'node:vm';

import { EVAL_MS_MAX } from './limits.mjs';

export const open = async (bindings) => {
  const context = vm.createContext({ ...bindings });
  return {
    eval: (code) => new vm.Script(code).runInContext(context, { timeout: EVAL_MS_MAX }),
    close: () => {},
  };
};
