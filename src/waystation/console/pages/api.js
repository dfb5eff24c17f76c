// The HTTP API: JSON in and out, problems as errors, streams of events.

import { held } from './dom.js';
import { clock } from './format.js';

export class Problem extends Error {
  constructor(status, reply) {
    super(reply.detail || `the server answered ${status}`);
    this.status = status;
    this.code = reply.code || '';
  }
}

// What is asked before anybody is known; whoever is refused there has not lost a session.
const SIGNING_IN = ['sign-in', 'session', 'admin/sign-in'];

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
  if (answer.status === 401 && !SIGNING_IN.includes(place)) dispatchEvent(new CustomEvent('signed-out'));
  if (!answer.ok) throw new Problem(answer.status, reply);
  return reply;
}

export const get = (place) => ask('GET', place);
export const post = (place, body = {}) => ask('POST', place, body);
export const remove = (place) => ask('DELETE', place);

export const queuePlace = (product, name, rest = '') =>
  `queues/${encodeURIComponent(product)}/${encodeURIComponent(name)}${rest}`;

// Whether what is shown is still true: a light in the corner, and a sentence when it is not.
let asOf = new Date();
let doubt = 0;

function heard(signal) {
  if (signal.aborted) return;
  clearTimeout(doubt);
  doubt = 0;
  asOf = new Date();
  document.body.setAttribute('data-live', 'on');
  say('');
}

function unheard(why, signal, patience = 0) {
  if (signal.aborted || (patience && doubt)) return;
  clearTimeout(doubt);
  doubt = setTimeout(() => {
    if (signal.aborted) return;
    document.body.setAttribute('data-live', 'off');
    say(`${why[0].toUpperCase()}${why.slice(1)}. What you see is from ${clock(asOf)}; it goes on by itself.`);
  }, patience);
}

function say(text) {
  const place = document.getElementById('away');
  if (place && place.textContent !== text) place.textContent = text;
}

export function forgetLive() {
  clearTimeout(doubt);
  doubt = 0;
  document.body.removeAttribute('data-live');
  say('');
}

// A server ends a stream now and then, and the browser opens it again: that is no trouble.
const REOPENED = 8000;
const AGAIN = 5000;

// Follow a stream until the view is left; `signal` ends it.
export function follow(place, handlers, signal) {
  if (signal.aborted) return;
  let source;
  let timer;
  function open() {
    source = new EventSource(`/api/v1/${place}`);
    for (const [name, handler] of Object.entries(handlers)) {
      source.addEventListener(name, (event) => { heard(signal); handler(JSON.parse(event.data)); });
    }
    source.addEventListener('trouble', (event) => unheard(JSON.parse(event.data).detail || 'the store does not answer', signal));
    source.addEventListener('error', () => {
      unheard('the console does not answer', signal, REOPENED);
      // After a refusal the browser does not try again by itself; it may be that the session is over.
      if (source.readyState === EventSource.CLOSED) timer = setTimeout(reopen, AGAIN);
    });
  }
  const reopen = () => get('session').then(() => { if (!signal.aborted) open(); }, (error) => {
    if (signal.aborted) return;
    if (error.status === 401) dispatchEvent(new CustomEvent('signed-out')); else timer = setTimeout(reopen, AGAIN);
  });
  heard(signal);
  open();
  signal.addEventListener('abort', () => { clearTimeout(timer); source.close(); });
}

// Ask again and again until the view is left, unless somebody stands in what would be drawn anew.
export function every(seconds, step, signal, kept = null) {
  if (signal.aborted) return;
  heard(signal);
  let asking = false;
  const turn = () => {
    // A store that is slow gets no second question before it has answered the first.
    if (asking || document.hidden || (kept && held(kept))) return;
    asking = true;
    Promise.resolve(step()).then(() => heard(signal), (error) => unheard(error.message || String(error), signal)).finally(() => { asking = false; });
  };
  const timer = setInterval(turn, seconds * 1000);
  signal.addEventListener('abort', () => clearInterval(timer));
}
