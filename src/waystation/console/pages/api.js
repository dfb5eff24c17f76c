// The HTTP API: JSON in and out, problems as errors, streams of events.

export class Problem extends Error {
  constructor(status, reply) {
    super(reply.detail || `the server answered ${status}`);
    this.status = status;
    this.code = reply.code || '';
  }
}

async function ask(method, place, body) {
  const headers = { accept: 'application/json' };
  if (body !== undefined) headers['content-type'] = 'application/json';
  let answer;
  try {
    answer = await fetch(`/api/v1/${place}`, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new Problem(0, { detail: 'the console does not answer', code: 'AWAY' });
  }
  const text = await answer.text();
  let reply = {};
  try { reply = text ? JSON.parse(text) : {}; } catch { reply = {}; }
  if (!answer.ok) throw new Problem(answer.status, reply);
  return reply;
}

export const get = (place) => ask('GET', place);
export const post = (place, body = {}) => ask('POST', place, body);
export const remove = (place) => ask('DELETE', place);

export const queuePlace = (product, name, rest = '') =>
  `queues/${encodeURIComponent(product)}/${encodeURIComponent(name)}${rest}`;

// Follow a stream until the view is left; `signal` ends it.
export function follow(place, handlers, signal) {
  const source = new EventSource(`/api/v1/${place}`);
  for (const [name, handler] of Object.entries(handlers)) {
    source.addEventListener(name, (event) => handler(JSON.parse(event.data)));
  }
  source.addEventListener('open', () => document.body.setAttribute('data-live', 'on'));
  source.addEventListener('error', () => document.body.setAttribute('data-live', 'off'));
  signal.addEventListener('abort', () => source.close());
}

// Ask again and again until the view is left; the light in the corner says whether there was an answer.
export function every(seconds, step, signal) {
  const live = (state) => () => { if (!signal.aborted) document.body.setAttribute('data-live', state); };
  live('on')();
  const timer = setInterval(() => { if (!document.hidden) Promise.resolve(step()).then(live('on'), live('off')); }, seconds * 1000);
  signal.addEventListener('abort', () => clearInterval(timer));
}
