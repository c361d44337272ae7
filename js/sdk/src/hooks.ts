// Calls back into the program that uses the library.

/** A hook that throws is the program's fault, and is reported as such; it must not stop the connection half-way. */
export function tell<A extends unknown[]>(hook: ((...args: A) => void) | undefined, ...args: A): void {
  try {
    hook?.(...args);
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
