// Node's BullMQ at the end of a pipe: a JSON command a line on stdin, a JSON answer a line on stdout.
//
// BullMQ is the one installed in the working directory. When stdin ends, everything is closed.

import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { matches } from './journal.mjs';
import { open } from './things.mjs';

const POLL_MS = 10;
const CLOSE_WITHIN_MS = 2000;

const bullmq = createRequire(`${process.cwd()}/package.json`)('bullmq');
const opened = new Map();

const commands = {
  version: () => ({ node: process.version, bullmq: bullmq.version ?? null, pid: process.pid }),

  async open({ handle, ...what }) {
    const entry = open(bullmq, what);
    opened.set(handle, entry);
    await entry.thing.waitUntilReady?.();
  },
  call: ({ handle, path }) => follow(get(handle).thing, path),
  journal: ({ handle }) => get(handle).journal.entries,
  until: ({ handle, match, count, timeoutMs }) =>
    get(handle).journal.until(match, count, timeoutMs),

  /** Ask the same thing again and again until the answer matches. */
  async poll({ handle, path, match, timeoutMs }) {
    const end = Date.now() + timeoutMs;
    for (;;) {
      const value = plain(await follow(get(handle).thing, path));
      if (matches(value, match)) return value;
      if (Date.now() > end) {
        throw new Error(
          `waited ${timeoutMs} ms for ${JSON.stringify(match)}, got ${JSON.stringify(value)}`,
        );
      }
      await sleep(POLL_MS);
    }
  },

  async close({ handle, force }) {
    const entry = opened.get(handle);
    opened.delete(handle);
    const closing = entry?.thing.close(force);
    // Without a server a connection may wait for ever for the answer to its goodbye.
    await (force ? Promise.race([closing, sleep(CLOSE_WITHIN_MS)]) : closing);
  },
};

/** Walk from a thing by names and calls: `[["getJob", "7"], ["retry"]]`. */
async function follow(thing, path) {
  let value = thing;
  for (const [name, ...args] of path) {
    if (value === undefined || value === null) throw new TypeError(`there is nothing to ask ${name}`);
    const member = value[name];
    if (member === undefined) throw new TypeError(`${value.constructor.name} has no ${name}`);
    value = await (typeof member === 'function' ? member.apply(value, args.map(revived)) : member);
  }
  return value;
}

/** Arguments may name another opened thing, as `waitUntilFinished` wants one. */
function revived(argument) {
  const handle = argument?.$handle;
  return handle === undefined ? argument : get(handle).thing;
}

function get(handle) {
  const entry = opened.get(handle);
  if (!entry) throw new Error(`nothing is open under ${handle}`);
  return entry;
}

const JOB_FIELDS = [
  'id', 'name', 'data', 'opts', 'progress', 'delay', 'priority', 'timestamp', 'attemptsMade',
  'attemptsStarted', 'stalledCounter', 'returnvalue', 'failedReason', 'stacktrace', 'processedOn',
  'finishedOn', 'processedBy', 'parentKey', 'parent', 'deduplicationId', 'repeatJobKey',
  'deferredFailure', 'queueName',
];

/** What can travel: jobs by their fields, maps as objects, nothing that holds a connection. */
function plain(value) {
  if (value instanceof bullmq.Job) {
    return Object.fromEntries(JOB_FIELDS.map((field) => [field, plain(value[field])]));
  }
  if (value instanceof Map) return plain(Object.fromEntries(value));
  if (Array.isArray(value)) return value.map(plain);
  if (value === null || typeof value !== 'object') return value ?? null;
  if (value instanceof Date || Buffer.isBuffer(value)) return value.toString();
  const own = Object.getPrototypeOf(value);
  if (own !== null && own !== Object.prototype) return null;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, plain(one)]));
}

async function answer(line) {
  const { id, command, ...args } = JSON.parse(line);
  try {
    if (!(command in commands)) throw new TypeError(`there is no command ${command}`);
    say({ id, result: plain(await commands[command](args)) });
  } catch (error) {
    say({ id, error: { name: error?.name ?? 'Error', message: error?.message ?? String(error) } });
  }
}

function say(message) {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}

async function closeAll() {
  const closing = [...opened.values()].map(({ thing }) => thing.close(true));
  await Promise.race([Promise.allSettled(closing), sleep(CLOSE_WITHIN_MS)]);
}

process.on('unhandledRejection', (error) => console.error('unhandled in the Node peer:', error));

const lines = createInterface({ input: process.stdin });
lines.on('line', answer);
lines.on('close', () => closeAll().finally(() => process.exit(0)));
