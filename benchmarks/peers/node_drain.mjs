// How fast one Node worker empties a full queue of jobs that do nothing.

import { args, bullmq, fill, freshQueue, report, round, seconds, storeSeconds } from './bench.mjs';

const { url, jobs, concurrency } = args({ jobs: 20000, concurrency: 100 });
const { name, connection, queue, done } = await freshQueue(url);
await fill(queue, jobs);

const worker = new bullmq.Worker(name, async () => {}, { connection, concurrency, autorun: false });
await worker.waitUntilReady();
let cpu;
let twice = 0;
const missing = new Set(Array.from({ length: jobs }, (_, n) => n));
const store = await storeSeconds(url);
const elapsed = await seconds(async () => {
  const before = process.cpuUsage();
  await emptied();
  cpu = process.cpuUsage(before);
});
const storeUsed = (await storeSeconds(url)) - store;
report('drain', {
  jobs,
  twice,
  concurrency,
  seconds: round(elapsed),
  perSecond: Math.round(jobs / elapsed),
  cpuMicrosPerJob: round((cpu.user + cpu.system) / jobs, 1),
  storeMicrosPerJob: round((storeUsed * 1e6) / jobs, 1),
});
await worker.close();
await done();

function emptied() {
  return new Promise((resolve, reject) => {
    worker.on('completed', (job) => {
      if (!missing.delete(job.data.n)) twice += 1;
      if (missing.size === 0) resolve();
    });
    worker.on('error', reject);
    worker.run().catch(reject);
  });
}
