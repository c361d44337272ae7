// What every engine has in common.

/** How long an eval may run. An endless loop ends by it, and stalls whatever shares its thread until then. */
export const EVAL_MS_MAX = 500;
