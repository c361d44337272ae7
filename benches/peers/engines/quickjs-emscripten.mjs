// quickjs-emscripten: QuickJS compiled to WebAssembly, a runtime and a context per session, on the server's thread.
import { getQuickJS, shouldInterruptAfterDeadline } from 'quickjs-emscripten';

import { EVAL_MS_MAX } from './limits.mjs';

const MEMORY_BYTES_MAX = 64 << 20;

const quickjs = await getQuickJS();

export const open = async (bindings) => {
  const runtime = quickjs.newRuntime();
  runtime.setMemoryLimit(MEMORY_BYTES_MAX);
  const context = runtime.newContext();
  const toGuest = (value) => context.unwrapResult(context.evalCode(`(${JSON.stringify(value) ?? 'undefined'})`));
  const runJobs = () => runtime.executePendingJobs().dispose?.();

  const expose = (name, call) => {
    const guestFunction = context.newFunction(name, (input) => {
      const promise = context.newPromise();
      Promise.resolve(call(context.dump(input))).then((value) => {
        toGuest(value).consume((handle) => promise.resolve(handle));
        runJobs();
      });
      return promise.handle;
    });
    guestFunction.consume((handle) => context.setProp(context.global, name, handle));
  };
  Object.entries(bindings).forEach(([name, call]) => expose(name, call));

  return {
    async eval(code) {
      runtime.setInterruptHandler(shouldInterruptAfterDeadline(Date.now() + EVAL_MS_MAX));
      const given = context.unwrapResult(context.evalCode(code));
      const settled = context.resolvePromise(given);
      given.dispose();
      runJobs();
      return context.unwrapResult(await settled).consume((handle) => context.dump(handle));
    },
    close: () => {
      context.dispose();
      runtime.dispose();
    },
  };
};
