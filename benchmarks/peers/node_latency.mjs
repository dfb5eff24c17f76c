// How long a job waits from the call that adds it to the start of its handler, at a steady rate.

import { setTimeout as sleep } from 'node:timers/promises';
import { args, bullmq, freshQueue, percentile, report, round } from './bench.mjs';

const WARM_UP = 50;

const { url, jobs, rate, concurrency } = args({ jobs: 2000, rate: 200, concurrency: 10 });
const { name, connection, queue, done } = await freshQueue(url);

const waits = [];
let allStarted;
const finished = new Promise((resolve) => (allStarted = resolve));
const worker = new bullmq.Worker(
  name,
  async (job) => {
    if (job.data.n >= WARM_UP) waits.push(performance.now() - job.data.at);
    if (job.data.n === jobs + WARM_UP - 1) allStarted();
  },
  { connection, concurrency },
);
await worker.waitUntilReady();

const start = performance.now();
const adding = [];
for (let n = 0; n < jobs + WARM_UP; n += 1) {
  const due = start + (n * 1000) / rate;
  if (due > performance.now()) await sleep(due - performance.now());
  adding.push(queue.add('job', { n, at: performance.now() }));
}
await Promise.all(adding);
await finished;

report('latency', {
  jobs,
  rate,
  concurrency,
  p50Ms: round(percentile(waits, 0.5)),
  p99Ms: round(percentile(waits, 0.99)),
  maxMs: round(Math.max(...waits)),
});
await worker.close();
await done();
