// When to dial again, and how long to wait before. Pure, but for the random share that keeps clients out of step.

export interface ReconnectPolicy {
  /** The wait before the first attempt; it doubles with each further one. */
  initialMs: number;
  /** The longest wait. */
  maxMs: number;
  /** Attempts before it stops. */
  attempts: number;
}

export const RECONNECT_DEFAULT: ReconnectPolicy = { initialMs: 200, maxMs: 10_000, attempts: 10 };

/** Between half and all of the doubled time. */
export function waitMs(policy: ReconnectPolicy, attempt: number, random: number = Math.random()): number {
  const full = Math.min(policy.initialMs * 2 ** attempt, policy.maxMs);
  return full / 2 + (full / 2) * random;
}

/** Going away, no status, abnormal, internal error, and what restarting servers and their proxies send. */
const UNEXPECTED = new Set([1001, 1005, 1006, 1011, 1012, 1013, 1014]);

/** Whether a connection that ended so is worth dialling again. A close on purpose is not, nor one that would repeat. */
export function isUnexpected(closeCode: number): boolean {
  return UNEXPECTED.has(closeCode);
}
