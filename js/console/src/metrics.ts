// From the text of /metrics to the points of the charts. Pure.

/** Sample name with its labels, as it stands, to its value. */
export type Samples = Map<string, number>;

export function parseMetrics(text: string): Samples {
  const samples: Samples = new Map();
  for (const line of text.split('\n')) {
    const [, name, value] = /^([^#\s][^\s]*(?:\{.*\})?) (\S+)$/.exec(line) ?? [];
    if (name !== undefined) samples.set(name, Number(value));
  }
  return samples;
}

export interface Point {
  evalsPerSecond: number;
  /** In milliseconds; undefined when nothing ran. */
  p50: number | undefined;
  p95: number | undefined;
  memoryBytes: number | undefined;
}

/** What happened between two looks. */
export function pointBetween(before: Samples, now: Samples, seconds: number): Point {
  const evals = difference(sumOf(before, 'scomp_evals_total{'), sumOf(now, 'scomp_evals_total{'));
  const buckets = bucketsBetween(before, now);
  return {
    evalsPerSecond: evals / seconds,
    p50: quantile(buckets, 0.5),
    p95: quantile(buckets, 0.95),
    memoryBytes: now.get('scomp_memory_bytes'),
  };
}

function sumOf(samples: Samples, prefix: string): number {
  return [...samples].filter(([name]) => name.startsWith(prefix)).reduce((sum, [, value]) => sum + value, 0);
}

/** A counter that went back belongs to a server that started anew. */
function difference(before: number, now: number): number {
  return now >= before ? now - before : now;
}

interface Bucket {
  upToSeconds: number;
  count: number;
}

function bucketsBetween(before: Samples, now: Samples): Bucket[] {
  const buckets: Bucket[] = [];
  for (const [name, value] of now) {
    const [, bound] = /^scomp_eval_duration_seconds_bucket\{le="([^"]+)"\}$/.exec(name) ?? [];
    if (bound === undefined) continue;
    buckets.push({
      upToSeconds: bound === '+Inf' ? Infinity : Number(bound),
      count: difference(before.get(name) ?? 0, value),
    });
  }
  return buckets.sort((a, b) => a.upToSeconds - b.upToSeconds);
}

/** Interpolated within its bucket, as Prometheus does it; in milliseconds. */
export function quantile(buckets: Bucket[], share: number): number | undefined {
  const total = buckets.at(-1)?.count ?? 0;
  if (total === 0) return undefined;
  const rank = share * total;
  let lower = { upToSeconds: 0, count: 0 };
  for (const bucket of buckets) {
    if (bucket.count >= rank) {
      if (bucket.upToSeconds === Infinity) return lower.upToSeconds * 1000;
      const within = bucket.count === lower.count ? 1 : (rank - lower.count) / (bucket.count - lower.count);
      return (lower.upToSeconds + (bucket.upToSeconds - lower.upToSeconds) * within) * 1000;
    }
    lower = bucket;
  }
  return undefined;
}
