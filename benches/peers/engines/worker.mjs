// worker_threads: a thread with a V8 isolate per session; evals and host calls are messages.
import { Worker, isMainThread, parentPort } from 'node:worker_threads';

import { EVAL_MS_MAX } from './limits.mjs';

export const open = async (bindings) => {
  const worker = new Worker(new URL(import.meta.url));
  let settleEval;
  worker.on('message', async ({ call, name, input, value, error }) => {
    if (call === undefined) {
      if (error === undefined) settleEval.resolve(value);
      else settleEval.reject(error);
    } else {
      worker.postMessage({ call, value: await bindings[name](input) });
    }
  });
  await new Promise((resolve, reject) => worker.once('online', resolve).once('error', reject));
  return {
    eval: (code) =>
      new Promise((resolve, reject) => {
        settleEval = { resolve, reject };
        worker.postMessage({ code });
      }),
    close: () => worker.terminate(),
  };
};

const serveEvals = async () => {
  const { default: vm } = await import('node:vm');
  const waiting = new Map();
  let lastCall = 0;
  for (const name of ['lookup', 'notify']) {
    globalThis[name] = (input) => {
      parentPort.postMessage({ call: ++lastCall, name, input });
      return new Promise((resolve) => waiting.set(lastCall, resolve));
    };
  }
  parentPort.on('message', async ({ code, call, value }) => {
    if (code === undefined) {
      waiting.get(call)(value);
      waiting.delete(call);
      return;
    }
    try {
      const given = await new vm.Script(code).runInThisContext({ timeout: EVAL_MS_MAX });
      parentPort.postMessage({ value: given });
    } catch (error) {
      parentPort.postMessage({ error: String(error) });
    }
  });
};

if (!isMainThread) await serveEvals();
