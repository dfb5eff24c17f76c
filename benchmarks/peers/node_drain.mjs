// How fast one Node worker empties a full queue of jobs that do nothing.

import { args, bullmq, fill, freshQueue, report, round, seconds } from './bench.mjs';

const { url, jobs, concurrency } = args({ jobs: 20000, concurrency: 100 });
const { name, connection, queue, done } = await freshQueue(url);
await fill(queue, jobs);

const worker = new bullmq.Worker(name, async () => {}, { connection, concurrency, autorun: false });
await worker.waitUntilReady();
let cpu;
const elapsed = await seconds(async () => {
  const before = process.cpuUsage();
  await emptied();
  cpu = process.cpuUsage(before);
});
report('drain', {
  jobs,
  concurrency,
  seconds: round(elapsed),
  perSecond: Math.round(jobs / elapsed),
  cpuMicrosPerJob: round((cpu.user + cpu.system) / jobs, 1),
});
await worker.close();
await done();

function emptied() {
  return new Promise((resolve, reject) => {
    let left = jobs;
    worker.on('completed', () => {
      left -= 1;
      if (left === 0) resolve();
    });
    worker.on('error', reject);
    worker.run().catch(reject);
  });
}
