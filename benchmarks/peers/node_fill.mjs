// Leaves a queue full of waiting jobs behind, so that somebody else can weigh it.

import { args, bullmq, fill, report } from './bench.mjs';

const { url, jobs } = args({ jobs: 20000 });
const queue = new bullmq.Queue('weighed', { connection: { url } });
await queue.waitUntilReady();
await fill(queue, jobs);
report('fill', { jobs });
await queue.close();
