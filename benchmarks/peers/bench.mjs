// What the Node benchmarks share: BullMQ from the working directory, arguments, one line of results.

import { createRequire } from 'node:module';
import { connect } from 'node:net';
import { parseArgs } from 'node:util';

const require = createRequire(`${process.cwd()}/package.json`);

export const bullmq = require('bullmq');
export const version = require('bullmq/package.json').version;

/** `--url` and whole numbers by name, with their defaults; anything else ends the program. */
export function args(defaults) {
  try {
    return parsed(defaults);
  } catch (error) {
    console.error(error.message);
    process.exit(2);
  }
}

function parsed(defaults) {
  const names = ['url', ...Object.keys(defaults)];
  const options = Object.fromEntries(names.map((name) => [name, { type: 'string' }]));
  const { url, ...given } = parseArgs({ options }).values;
  if (!url) throw new Error('wanted --url, the address of a Redis server, and got none');
  const numbers = Object.entries(given).map(([name, text]) => [name, wholeNumber(name, text)]);
  return { url, ...defaults, ...Object.fromEntries(numbers) };
}

function wholeNumber(name, text) {
  const number = Number(text);
  if (!Number.isInteger(number) || number < 1) {
    throw new Error(`--${name} must be a whole number from 1, got ${text}`);
  }
  return number;
}

/** An empty queue of its own for one measurement; `done` removes it again. */
export async function freshQueue(url) {
  const name = `bench-${process.pid}-${Date.now()}`;
  const connection = { url };
  const queue = new bullmq.Queue(name, { connection });
  await queue.waitUntilReady();
  const done = async () => {
    await queue.obliterate({ force: true });
    await queue.close();
  };
  return { name, connection, queue, done };
}

export async function fill(queue, jobs, chunk = 1000) {
  for (let from = 0; from < jobs; from += chunk) {
    const size = Math.min(chunk, jobs - from);
    const rows = Array.from({ length: size }, (_, n) => ({ name: 'job', data: { n: from + n } }));
    await queue.addBulk(rows);
  }
}

export async function seconds(work) {
  const start = performance.now();
  await work();
  return (performance.now() - start) / 1000;
}

/** The processor time in seconds that the store has used so far. */
export async function storeSeconds(url) {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.write('INFO cpu\r\n');
  const text = await new Promise((resolve, reject) => {
    socket.once('data', (data) => resolve(String(data)));
    socket.once('error', reject);
  });
  socket.destroy();
  const used = (name) => Number(text.match(new RegExp(`${name}:([0-9.]+)`))[1]);
  return used('used_cpu_user') + used('used_cpu_sys');
}

/** The value below which this part of the numbers lies. */
export function percentile(numbers, part) {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))];
}

export function round(number, digits = 3) {
  return Number(number.toFixed(digits));
}

export function report(task, figures) {
  console.log(JSON.stringify({ peer: 'bullmq-node', version, task, ...figures }));
}
