// A routing worker in another language: the document's scripts, plain commands, nothing of ours.
//
// The first line on stdin is what it works with, as JSON; then a line for each command: `claim`,
// `renew`, `beat`, `finish`. Each is answered with one line of JSON on stdout. It uses the ioredis
// that is installed in the working directory.

import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const Redis = createRequire(`${process.cwd()}/package.json`)('ioredis');
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const { url, worker, lockTtl, renewal, scripts } = JSON.parse((await lines.next()).value);

const redis = new Redis(url);
const lockOf = (id) => `bridge:jobs:lock:${id}`;
let job = null;

const renewals = {
  EXPIRE: (lock) => redis.expire(lock, lockTtl),
  PEXPIRE: (lock) => redis.pexpire(lock, lockTtl * 1000),
  'SET XX EX': (lock) => redis.set(lock, worker, 'EX', lockTtl, 'XX'),
  // A lock without an end, as a careless client leaves it.
  'SET XX': (lock) => redis.set(lock, worker, 'XX'),
};

const commands = {
  async claim() {
    const found = await redis.eval(
      scripts.claim_job,
      3,
      ...['bridge:jobs:waiting', 'bridge:jobs:active', 'bridge:queues:paused'],
      // By a clock that is an hour late, so that the lease is over and only the lock counts.
      ...[worker, '["node"]', '[]', '[]', Date.now() - 3_600_000, lockTtl],
      ...['bridge:jobs:data:', 'bridge:jobs:lock:', 'bridge:ratelimit:concurrent:'],
    );
    job = found && JSON.parse(found);
    return job?.jobId ?? null;
  },
  renew: () => renewals[renewal](lockOf(job.jobId)),
  async beat() {
    const about = { serverId: worker, stack: 'node', region: '', capabilities: [] };
    await redis.set(`bridge:workers:${worker}`, JSON.stringify({ ...about, lastSeen: Date.now() }));
    await redis.sadd('bridge:workers:active', worker);
    return redis.set(`bridge:workers:heartbeat:${worker}`, Date.now(), 'EX', 30);
  },
  async finish() {
    const id = job.jobId;
    const result = { success: true, data: 'by node', completedAt: Date.now(), processingTime: 1 };
    const released = await redis.eval(
      scripts.release_lock,
      3,
      ...[lockOf(id), 'bridge:jobs:active', `bridge:ratelimit:concurrent:${job.type}`],
      ...[worker, id],
    );
    if (released === 1) {
      await redis.set(`bridge:jobs:result:${id}`, JSON.stringify(result), 'EX', 86400);
      await redis.set(`bridge:jobs:status:${id}`, 'completed', 'EX', 86400);
      await redis.del(`bridge:jobs:data:${id}`);
    }
    return released;
  },
};

for await (const command of lines) {
  console.log(JSON.stringify((await commands[command]()) ?? null));
}
redis.disconnect();
