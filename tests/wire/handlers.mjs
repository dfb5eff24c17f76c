// What a worker does with a job: a list of steps, each a name and its arguments.
//
// The steps come with the job (`data.do`), else from the worker's table by the job's name or `*`,
// else the job is echoed. The last value that a step gives is the job's result.

import { setTimeout as sleep } from 'node:timers/promises';

const FIRST_START = 1;

/** A processor for a worker, given BullMQ itself, the worker's journal and its table of steps. */
export function processor(bullmq, journal, table, theWorker) {
  const known = steps(bullmq);
  return async (job, token) => {
    journal.write('started', {
      jobId: job.id,
      name: job.name,
      data: job.data,
      attemptsMade: job.attemptsMade,
      attemptsStarted: job.attemptsStarted,
      token,
    });
    let result;
    for (const [name, ...args] of job.data?.do ?? table[job.name] ?? table['*'] ?? [['echo']]) {
      if (!(name in known)) throw new bullmq.UnrecoverableError(`there is no step ${name}`);
      const value = await known[name]({ job, token, worker: theWorker() }, ...args);
      if (value !== undefined) result = value;
    }
    return result;
  };
}

function steps(bullmq) {
  const { DelayedError, UnrecoverableError, WaitingChildrenError, WaitingError } = bullmq;
  return {
    echo: ({ job }) => job.data,
    return: (_, value) => value,
    childrenValues: ({ job }) => job.getChildrenValues(),

    async progress({ job }, value) {
      await job.updateProgress(value);
    },
    async log({ job }, text) {
      await job.log(text);
    },
    async updateData({ job }, data) {
      await job.updateData(data);
    },
    async extendLock({ job, token }, ms) {
      await job.extendLock(token, ms);
    },
    async runFor(_, ms) {
      await sleep(ms);
    },
    /** Run until somebody has paused another queue. */
    async untilPaused({ worker }, name) {
      await withQueue(bullmq, worker, name, async (queue) => {
        while (!(await queue.isPaused())) await sleep(5);
      });
    },
    never: () => new Promise(() => {}),

    /** Throw on the first `times` attempts; always, when no number is given. */
    throw({ job }, message, times = Infinity) {
      if (job.attemptsMade < times) throw new Error(message);
    },
    unrecoverable(_, message) {
      throw new UnrecoverableError(message);
    },

    async moveToDelayed({ job, token }, ms) {
      if (job.attemptsStarted > FIRST_START) return;
      await job.moveToDelayed(Date.now() + ms, token);
      throw new DelayedError();
    },
    async moveToWait({ job, token }) {
      if (job.attemptsStarted > FIRST_START) return;
      await job.moveToWait(token);
      throw new WaitingError();
    },
    async rateLimit({ job, worker }, ms) {
      if (job.attemptsStarted > FIRST_START) return;
      await worker.rateLimit(ms);
      throw bullmq.Worker.RateLimitError();
    },

    /** Add to the job's own queue while it runs. */
    async add({ job, worker }, name, data, opts) {
      await withQueue(bullmq, worker, job.queueName, (queue) => queue.add(name, data, opts));
    },

    /** Add children on the first start, then wait for all that are pending. */
    async waitForChildren({ job, token, worker }, children = []) {
      if (job.attemptsStarted === FIRST_START) {
        for (const child of children) await addChild(bullmq, worker, job, child);
      }
      if (await job.moveToWaitingChildren(token)) throw new WaitingChildrenError();
    },
  };
}

async function addChild(bullmq, worker, job, { queue: queueName, name, data, opts }) {
  const parent = { id: job.id, queue: job.queueQualifiedName };
  await withQueue(bullmq, worker, queueName, (queue) => queue.add(name, data, { ...opts, parent }));
}

async function withQueue(bullmq, worker, name, use) {
  const { connection, prefix } = worker.opts;
  const queue = new bullmq.Queue(name, { connection, prefix });
  try {
    await use(queue);
  } finally {
    await queue.close();
  }
}
