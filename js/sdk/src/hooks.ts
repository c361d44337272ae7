// Calls back into the program that uses the library.

/** Calls a hook. One that throws is reported as an uncaught error of the program; it must not stop the connection. */
export function callHook<A extends unknown[]>(hook: ((...args: A) => void) | undefined, ...args: A): void {
  try {
    hook?.(...args);
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
