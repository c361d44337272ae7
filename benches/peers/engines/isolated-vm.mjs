// isolated-vm: a V8 isolate per session, evals on a pool of threads, host calls through references.
import ivm from 'isolated-vm';

import { EVAL_MS_MAX } from './limits.mjs';

const MEMORY_MB_MAX = 64;

export const open = async (bindings) => {
  const isolate = new ivm.Isolate({ memoryLimit: MEMORY_MB_MAX });
  const context = await isolate.createContext();
  for (const [name, call] of Object.entries(bindings)) {
    await context.evalClosure(
      `globalThis[$0] = (input) =>
         $1.apply(undefined, [input], { arguments: { copy: true }, result: { promise: true, copy: true } });`,
      [name, new ivm.Reference(call)],
    );
  }
  return {
    eval: (code) => context.eval(code, { promise: true, copy: true, timeout: EVAL_MS_MAX }),
    close: () => isolate.dispose(),
  };
};
