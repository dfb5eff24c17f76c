// The kinds of BullMQ object a test may open, each with a journal of what it reports.

import { Journal } from './journal.mjs';
import { processor } from './handlers.mjs';

/** Open one thing; `name` is the queue's, `options` are BullMQ's own, `url` says where. */
export function open(bullmq, { kind, name, url, options = {}, ...more }) {
  if (!(kind in kinds)) throw new TypeError(`there is no kind ${kind}`);
  const journal = new Journal();
  const thing = kinds[kind](bullmq, name, { ...options, connection: connection(url) }, journal, more);
  thing.on?.('error', (error) => journal.write('error', { message: error.message }));
  return { thing, journal };
}

const kinds = {
  queue: (bullmq, name, options) => new bullmq.Queue(name, options),
  flow: (bullmq, _, options) => new bullmq.FlowProducer(options),
  producer: (bullmq, name, options) => new bullmq.QueueEventsProducer(name, options),

  /** From the stream's start by default: `$` would miss what comes before the first read. */
  events(bullmq, name, options, journal) {
    return recordingEvents(bullmq, journal, name, { lastEventId: '0-0', ...options });
  },

  worker(bullmq, name, options, journal, { handlers = {}, backoff }) {
    if (backoff) options.settings = { ...options.settings, backoffStrategy: listed(backoff) };
    const run = processor(bullmq, journal, handlers, () => worker);
    const worker = new bullmq.Worker(name, run, options);
    reportWorker(worker, journal);
    return worker;
  },
};

/** A custom backoff that reads its waits from a list; the last one repeats. */
function listed(delays) {
  return (attemptsMade) => delays[Math.min(attemptsMade, delays.length) - 1];
}

function recordingEvents(bullmq, journal, name, options) {
  class RecordingEvents extends bullmq.QueueEvents {
    emit(event, ...args) {
      const [fields, id] = args.length > 1 ? args : [{}, args[0]];
      // Every entry is emitted a second time, under its name and job id together.
      const again = fields?.jobId !== undefined && event.endsWith(`:${fields.jobId}`);
      if (isStreamId(id) && !again) journal.write(event, { id, ...fields });
      return super.emit(event, ...args);
    }
  }
  return new RecordingEvents(name, options);
}

function isStreamId(id) {
  return typeof id === 'string' && /^\d+-\d+$/.test(id);
}

function reportWorker(worker, journal) {
  worker.on('completed', (job, returnvalue) =>
    journal.write('completed', { jobId: job.id, name: job.name, returnvalue }));
  worker.on('failed', (job, error) =>
    journal.write('failed', {
      jobId: job?.id,
      name: job?.name,
      failedReason: error.message,
      attemptsMade: job?.attemptsMade,
      finished: job?.finishedOn !== undefined,
    }));
  worker.on('stalled', (jobId) => journal.write('stalled', { jobId }));
  worker.on('lockRenewalFailed', (jobIds) => journal.write('lockRenewalFailed', { jobIds }));
  for (const name of ['drained', 'paused', 'resumed', 'closed']) {
    worker.on(name, () => journal.write(name));
  }
}

function connection(url) {
  if (!url.startsWith('unix:')) return { url };
  const { pathname, searchParams } = new URL(url);
  return { path: decodeURIComponent(pathname), db: Number(searchParams.get('db') ?? 0) };
}
