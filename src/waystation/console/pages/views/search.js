// Search over the jobs that are in the store, and what is done to all that match.

import { h, link, path, replace } from '../dom.js';
import { every, get, post, remove } from '../api.js';
import { count, plural } from '../format.js';
import { button, chip, confirmed, empty, loading, may, table, time, toast, trouble } from '../parts.js';

const EXAMPLES = ['state:failed error:timeout', 'data.tenant:acme', 'queue:mail name:send', 'id:42'];

const ACTIONS = {
  retry: { title: 'Retry', past: 'retried', of: ['failed', 'dead'] },
  promote: { title: 'Promote', past: 'promoted', of: ['delayed'] },
  cancel: { title: 'Cancel', past: 'cancelled', of: ['waiting', 'prioritized', 'delayed', 'waiting-children', 'active', 'held'] },
  remove: { title: 'Remove', past: 'removed', of: ['waiting', 'prioritized', 'delayed', 'waiting-children', 'completed', 'failed', 'dead'] },
};

export async function search(root, { query, signal }) {
  const asked = query.get('q') || '';
  const field = h('input', { id: 'q', type: 'search', value: asked, autocomplete: 'off' });
  const found = h('div', { 'aria-live': 'polite' }, asked.trim() && loading());
  const go = (event) => { event.preventDefault(); location.hash = `/search?q=${encodeURIComponent(field.value)}`; };
  replace(root, h('h1', {}, 'Search'),
    h('form', { class: 'row', onsubmit: go }, h('label', { for: 'q', class: 'unseen' }, 'Search for'), field, h('button', { type: 'submit', class: 'primary' }, 'Search')),
    h('p', { class: 'muted' }, 'For example ', EXAMPLES.map((each, index) => [index ? ', ' : '', link(`/search?q=${encodeURIComponent(each)}`, { class: 'small' }, h('code', {}, each))])), found);
  const runs = h('div', { role: 'status' });
  found.before(runs);
  await drawRuns(runs);
  every(2, () => drawRuns(runs), signal, runs);
  if (!asked.trim()) return;
  const past = h('div', { 'aria-live': 'polite' });
  root.append(past);
  const look = { asked, found, runs, limit: AT_ONCE, again: 0, signal };
  await drawLive(look);
  // A search reads for a while, so it is repeated the less often the longer it took.
  every(2, () => (Date.now() < look.again ? null : drawLive(look)), signal, found);
  drawPast(asked, past, AT_ONCE).catch(trouble);
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
  const offered = Object.keys(ACTIONS).filter((name) => !reply.complete || reply.total > reply.hits.length || ACTIONS[name].of.some((state) => states.has(state)));
  const again = (done) => done && drawLive(look);
  const bulk = may('operator') && offered.length > 0 && h('div', { class: 'row wrap bulk', role: 'group', 'aria-label': 'All that match' }, h('span', { class: 'strong' }, 'All that match'),
    offered.map((name) => button(`${ACTIONS[name].title}…`, () => actOnAll(name, look).then(again).catch(trouble), name === 'remove' ? 'danger quiet' : '')));
  const rows = reply.hits.map(({ product, queue, job }) => ({ cells: [
    [link(path('queues', product, queue, job.id), { class: 'strong' }, job.name || job.id), ' ', h('span', { class: 'product' }, job.id)], link(path('queues', product, queue), {}, queue), chip(job.state),
    job.error ? h('span', { class: 'bad-text' }, job.error) : h('code', {}, job.data), time(job.finished_at || job.started_at || job.created_at)] }));
  const total = `${reply.complete ? '' : 'At least '}${count(reply.total)} found among ${plural(reply.looked_at, 'job')} in ${Math.round(reply.took_ms)} ms`;
  replace(found, h('p', { class: 'muted' }, total, reply.total > rows.length && `; the first ${count(rows.length)} are shown`, !reply.complete && '; there are more jobs that were not looked at', '.'), bulk,
    rows.length ? table('Found jobs', [{ name: 'Job' }, { name: 'Queue' }, { name: 'State' }, { name: 'Data', kind: 'data' }, { name: 'When' }], rows) : empty('Nothing found'),
    reply.total > rows.length && limit < MOST && h('p', {}, button('Show more', () => { look.limit = Math.min(MOST, limit * 4); drawLive(look).catch(trouble); })));
}

// What is under way, also when another page or person has begun it, and what has ended lately.
async function drawRuns(box) {
  const { runs } = await get('search/runs');
  const lately = runs.filter((each) => each.state === 'running' || Date.now() - new Date(each.ended_at) < 300e3).slice(0, 5);
  const text = JSON.stringify(lately);
  if (box.dataset.shown !== text) {
    box.dataset.shown = text;
    replace(box, lately.map((each) => h('div', { class: 'panel' },
      h('div', { class: 'row spread wrap' }, h('span', {}, chip(each.state, STATES[each.state]), ` ${ACTIONS[each.action].title} `, h('code', {}, each.q), `: ${sentence(each)}`), each.state === 'running' && may('operator') && button('Stop', () => remove(`search/runs/${each.id}`).then(() => drawRuns(box)).catch(trouble))),
      each.state === 'running' && h('progress', { max: Math.max(each.matched, each.done), value: each.done, 'aria-label': `Jobs ${ACTIONS[each.action].past}` }))));
  }
  return runs;
}

const STATES = { running: 'busy', done: 'good', stopped: 'late', broken: 'bad' };

function sentence(run) {
  const { past } = ACTIONS[run.action];
  const most = Math.max(run.matched, run.done);
  if (run.state === 'running') return `${count(run.done)} of ${run.beyond ? 'at least ' : ''}${plural(most, 'job')} ${past}`;
  const alone = run.state === 'done' ? run.matched - run.done : 0;
  return `${[`${plural(run.done, 'job')} ${past}`, alone > 0 && `${count(alone)} had changed meanwhile and ${alone === 1 ? 'was' : 'were'} left alone`,
    run.state === 'stopped' && 'stopped before the end', run.state === 'broken' && `then it ended: ${run.error || 'something went wrong'}`].filter(Boolean).join('; ')}.`;
}

// Count, ask, and let the server go through all of them; it goes on when this page is closed.
async function actOnAll(name, { asked, runs, signal }) {
  const { title } = ACTIONS[name];
  const place = `search/actions/${name}`;
  const counted = await post(place, { q: asked, dry_run: true });
  if (!counted.matched) { toast(`There is nothing to ${name}: no job that matches is in a state for it.`); return false; }
  const where = counted.queues.map((each) => `${each.queue} ${count(each.matched)}`).slice(0, 6).join(', ');
  const chosen = await confirmed({
    title: `${title} all that match`, action: `${title} ${counted.more ? 'all' : plural(counted.matched, 'job')}`, danger: name === 'remove' || name === 'cancel', confirm: name === 'remove' ? String(counted.matched) : '',
    text: [h('code', {}, asked), ` matches ${counted.more ? 'at least ' : ''}${plural(counted.matched, 'job')} for this: ${where}. What is added or ends from now on is left alone.`,
      counted.more && ' There are more jobs than could be counted; they are included.', ' The console goes on with it when you leave this page.'],
    more: h('ul', { class: 'examples' }, counted.examples.map(({ queue, job }) => h('li', {}, h('span', { class: 'strong' }, job.name || job.id), ` ${job.id} · ${queue} `, h('span', { class: job.error ? 'bad-text' : 'muted' }, job.error || job.data))),
      counted.matched > counted.examples.length && h('li', { class: 'muted' }, `and ${count(counted.matched - counted.examples.length)} more`)),
  });
  if (!chosen) return false;
  const { id } = await post(place, { q: asked, until: counted.until, expected: counted.matched, reason: chosen.reason, whole: true, beyond: counted.more });
  while (!signal.aborted) {
    const run = (await drawRuns(runs)).find((each) => each.id === id);
    if (run?.state !== 'running') return true;
    await new Promise((done) => { setTimeout(done, 500); });
  }
  return false;
}
