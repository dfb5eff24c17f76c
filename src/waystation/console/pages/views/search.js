// Search over the jobs that are in the store, and what is done to all that match.

import { h, link, path, replace } from '../dom.js';
import { every, get } from '../api.js';
import { count, plural } from '../format.js';
import { button, chip, empty, loading, may, table, time, trouble } from '../parts.js';
import { ACTIONS, actOnAll } from '../runs.js';

const EXAMPLES = ['state:failed error:timeout', 'data.tenant:acme', 'queue:mail name:send', 'id:42'];

export async function search(root, { query, signal }) {
  const asked = query.get('q') || '';
  const field = h('input', { id: 'q', type: 'search', value: asked, autocomplete: 'off' });
  const found = h('div', { 'aria-live': 'polite' }, asked.trim() && loading());
  const go = (event) => { event.preventDefault(); location.hash = `/search?q=${encodeURIComponent(field.value)}`; };
  replace(root, h('h1', {}, 'Search'),
    h('form', { class: 'row', onsubmit: go }, h('label', { for: 'q', class: 'unseen' }, 'Search for'), field, h('button', { type: 'submit', class: 'primary' }, 'Search')),
    h('p', { class: 'muted' }, 'For example ', EXAMPLES.map((each, index) => [index ? ', ' : '', link(`/search?q=${encodeURIComponent(each)}`, { class: 'small' }, h('code', {}, each))])), found);
  if (!asked.trim()) return;
  const past = h('div', { 'aria-live': 'polite' });
  root.append(past);
  nameGroup(asked, found).catch(() => {});
  const look = { asked, found, limit: AT_ONCE, again: 0 };
  await drawLive(look);
  // A search reads for a while, so it is repeated the less often the longer it took.
  every(2, () => (Date.now() < look.again ? null : drawLive(look)), signal, found);
  drawPast(asked, past, AT_ONCE).catch(trouble);
}

// A group of failures is asked for by an id that says nothing; what failed does.
async function nameGroup(asked, found) {
  const id = asked.match(/(?:^| )failure:(\w+)/)?.[1];
  if (!id) return;
  const group = (await get('failures')).groups.find((each) => each.id === id);
  if (group) found.before(h('p', { class: 'why bad' }, h('span', { class: 'strong' }, group.error || 'Error'), ` ${group.signature || group.message}`));
}

async function drawPast(asked, past, limit) {
  const known = await get(`history/search?q=${encodeURIComponent(asked)}&limit=${limit}`);
  if (!known.available) return;
  const lines = known.jobs.map((job) => ({ cells: [[link(path('queues', job.product, job.queue, job.id), { class: 'strong' }, job.name || job.id), ' ', h('span', { class: 'product' }, job.id)], job.queue, job.state ? chip(job.state) : '–',
    job.error ? h('span', { class: 'bad-text' }, job.error) : job.data === null ? 'not kept' : h('code', {}, job.data), time(job.ended_at || job.added_at)] }));
  replace(past, h('h2', {}, 'In the history'), h('p', { class: 'muted' }, `${known.complete ? '' : 'More than '}${count(known.jobs.length)} found in ${Math.round(known.took_ms)} ms, the newest first.`),
    lines.length ? table('Past jobs', [{ name: 'Job' }, { name: 'Queue' }, { name: 'Ended as' }, { name: 'Data', kind: 'data' }, { name: 'When' }], lines) : empty('Nothing found in the history'),
    !known.complete && limit < MOST && h('p', {}, button('Show more of the past', () => drawPast(asked, past, Math.min(MOST, limit * 4)).catch(trouble))));
}

// A search looks through the newest first; more of them are looked for when somebody asks.
const AT_ONCE = 50;
const MOST = 500;
const SOONEST = 5000;
// The part of the time that a search that is repeated may take: one in twenty.
const SHARE = 20;

async function drawLive(look) {
  const { asked, found, limit } = look;
  const reply = await get(`search?q=${encodeURIComponent(asked)}&limit=${limit}`);
  look.again = Date.now() + Math.max(SOONEST, reply.took_ms * SHARE);
  const states = new Set(reply.hits.map(({ job }) => job.state));
  // Where not all were seen, others may be in any state, unless one is asked for.
  const one = /(^| )failure:/.test(asked) ? 'failed' : asked.match(/(?:^| )state:([\w-]+)/)?.[1];
  const isWhole = one || (reply.complete && reply.total === reply.hits.length);
  const offered = Object.keys(ACTIONS).filter((name) => !isWhole || ACTIONS[name].of.some((state) => (one ? state === one : states.has(state))));
  const again = (done) => done && drawLive(look);
  const bulk = may('operator') && offered.length > 0 && h('div', { class: 'row wrap bulk', role: 'group', 'aria-label': 'All that match' }, h('span', { class: 'strong' }, 'All that match'),
    offered.map((name) => button(`${ACTIONS[name].title}…`, () => actOnAll(name, asked).then(again).catch(trouble), name === 'remove' ? 'danger quiet' : '')));
  const rows = reply.hits.map(({ product, queue, job }) => ({ cells: [
    [link(path('queues', product, queue, job.id), { class: 'strong' }, job.name || job.id), ' ', h('span', { class: 'product' }, job.id)], link(path('queues', product, queue), {}, queue), chip(job.state),
    job.error ? h('span', { class: 'bad-text' }, job.error) : h('code', {}, job.data), time(job.finished_at || job.started_at || job.created_at)] }));
  const total = `${reply.complete ? '' : 'At least '}${count(reply.total)} found among ${plural(reply.looked_at, 'job')} in ${Math.round(reply.took_ms)} ms`;
  replace(found, h('p', { class: 'muted' }, total, reply.total > rows.length && `; the first ${count(rows.length)} are shown`, !reply.complete && '; there are more jobs that were not looked at', '.'), bulk,
    rows.length ? table('Found jobs', [{ name: 'Job' }, { name: 'Queue' }, { name: 'State' }, { name: 'Data', kind: 'data' }, { name: 'When' }], rows) : empty('Nothing found'),
    reply.total > rows.length && limit < MOST && h('p', {}, button('Show more', () => { look.limit = Math.min(MOST, limit * 4); drawLive(look).catch(trouble); })));
}
