// What adding costs in Node: one after the other, many at once, and in bulk.

import { args, fill, freshQueue, percentile, report, round, seconds } from './bench.mjs';

const { url, jobs, singles, inflight, chunk } = args({
  jobs: 20000,
  singles: 2000,
  inflight: 50,
  chunk: 500,
});
const { queue, done } = await freshQueue(url);
await fill(queue, 500);

const took = [];
const alone = await seconds(async () => {
  for (let n = 0; n < singles; n += 1) {
    const start = performance.now();
    await queue.add('job', { n });
    took.push(performance.now() - start);
  }
});
const together = await seconds(async () => {
  let next = 0;
  const lane = async () => {
    while (next < jobs) await queue.add('job', { n: (next += 1) });
  };
  await Promise.all(Array.from({ length: inflight }, lane));
});
const bulk = await seconds(() => fill(queue, jobs, chunk));

report('add', {
  alonePerSecond: Math.round(singles / alone),
  aloneP50Ms: round(percentile(took, 0.5)),
  aloneP99Ms: round(percentile(took, 0.99)),
  inflight,
  togetherPerSecond: Math.round(jobs / together),
  chunk,
  bulkPerSecond: Math.round(jobs / bulk),
});
await done();
