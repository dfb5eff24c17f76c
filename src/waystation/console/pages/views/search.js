// Search over the jobs that are in the store, and what is done to all that match.

import { h, link, path, replace } from '../dom.js';
import { get, post } from '../api.js';
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
  if (!asked.trim()) return;
  const past = h('div', { 'aria-live': 'polite' });
  root.append(past);
  await drawLive(found, asked, signal);
  get(`history/search?q=${encodeURIComponent(asked)}`).then((known) => {
    if (!known.available) return;
    const lines = known.jobs.map((job) => ({ cells: [[link(path('queues', job.product, job.queue, job.id), { class: 'strong' }, job.name || job.id), ' ', h('span', { class: 'product' }, job.id)], job.queue, job.state ? chip(job.state) : '–',
      job.error ? h('span', { class: 'bad-text' }, job.error) : job.data === null ? 'not kept' : h('code', {}, job.data), time(job.ended_at || job.added_at)] }));
    replace(past, h('h2', {}, 'In the history'), h('p', { class: 'muted' }, `${count(known.jobs.length)} found in ${Math.round(known.took_ms)} ms, the newest first.`),
      lines.length ? table('Past jobs', [{ name: 'Job' }, { name: 'Queue' }, { name: 'Ended as' }, { name: 'Data', kind: 'data' }, { name: 'When' }], lines) : empty('Nothing found in the history'));
  }).catch(trouble);
}

// A search looks through the newest first; more of them are looked for when somebody asks.
const AT_ONCE = 50;
const MOST = 500;

async function drawLive(found, asked, signal, limit = AT_ONCE) {
  const reply = await get(`search?q=${encodeURIComponent(asked)}&limit=${limit}`);
  const states = new Set(reply.hits.map(({ job }) => job.state));
  const offered = Object.keys(ACTIONS).filter((name) => !reply.complete || ACTIONS[name].of.some((state) => states.has(state)));
  const outcome = h('div', { role: 'status' });
  const bulk = may('operator') && offered.length > 0 && h('div', { class: 'row wrap bulk', role: 'group', 'aria-label': 'All that match' }, h('span', { class: 'strong' }, 'All that match'),
    offered.map((name) => button(`${ACTIONS[name].title}…`, () => actOnAll(name, asked, outcome, signal).then((done) => done && drawLive(found, asked, signal).then(() => found.prepend(outcome))).catch(trouble), name === 'remove' ? 'danger quiet' : '')));
  const rows = reply.hits.map(({ product, queue, job }) => ({ cells: [
    [link(path('queues', product, queue, job.id), { class: 'strong' }, job.name || job.id), ' ', h('span', { class: 'product' }, job.id)], link(path('queues', product, queue), {}, queue), chip(job.state),
    job.error ? h('span', { class: 'bad-text' }, job.error) : h('code', {}, job.data), time(job.finished_at || job.started_at || job.created_at)] }));
  replace(found, outcome, h('p', { class: 'muted' }, `${count(reply.hits.length)} found among ${plural(reply.looked_at, 'job')} in ${Math.round(reply.took_ms)} ms${reply.complete ? '' : '; there are more that were not looked at'}.`), bulk,
    rows.length ? table('Found jobs', [{ name: 'Job' }, { name: 'Queue' }, { name: 'State' }, { name: 'Data', kind: 'data' }, { name: 'When' }], rows) : empty('Nothing found'),
    reply.hits.length >= limit && limit < MOST && h('p', {}, button('Show more', () => drawLive(found, asked, signal, Math.min(MOST, limit * 4)).catch(trouble))));
}

// What one request changes, which is all that can be expected where not all could be counted.
const AT_MOST = 1000;

// Count, ask, and then go through all of them in batches; what was done stands on the page.
async function actOnAll(name, asked, outcome, signal) {
  const { title, past } = ACTIONS[name];
  const place = `search/actions/${name}`;
  const counted = await post(place, { q: asked, dry_run: true });
  if (!counted.matched) { toast(`There is nothing to ${name}: no job that matches is in a state for it.`); return false; }
  const where = counted.queues.map((each) => `${each.queue} ${count(each.matched)}`).slice(0, 6).join(', ');
  const chosen = await confirmed({
    title: `${title} all that match`, action: `${title} ${counted.more ? 'all' : plural(counted.matched, 'job')}`, danger: name === 'remove' || name === 'cancel', confirm: name === 'remove' ? String(counted.matched) : '',
    text: [h('code', {}, asked), ` matches ${counted.more ? 'at least ' : ''}${plural(counted.matched, 'job')} for this: ${where}. What is added or ends from now on is left alone.`,
      counted.more && ' There are more jobs than could be counted; they are included.', ' This page does it in batches: keep it open until it is done.'],
    more: h('ul', { class: 'examples' }, counted.examples.map(({ queue, job }) => h('li', {}, h('span', { class: 'strong' }, job.name || job.id), ` ${job.id} · ${queue} `, h('span', { class: job.error ? 'bad-text' : 'muted' }, job.error || job.data))),
      counted.matched > counted.examples.length && h('li', { class: 'muted' }, `and ${count(counted.matched - counted.examples.length)} more`)),
  });
  if (!chosen) return false;
  let [done, stopped, broken] = [0, false, false];
  const bar = h('progress', { max: counted.matched, value: 0, 'aria-label': `Jobs ${past}` });
  const words = h('span', {}, 'Beginning…');
  replace(outcome, h('div', { class: 'panel' }, h('div', { class: 'row spread' }, words, button('Stop', () => { stopped = true; })), bar));
  try {
    while (!stopped && !signal.aborted) {
      const step = await post(place, { q: asked, until: counted.until, expected: counted.more ? AT_MOST : counted.matched - done, reason: chosen.reason });
      done += step.done;
      bar.value = done;
      replace(words, `${count(done)} of ${counted.more ? 'at least ' : ''}${plural(Math.max(done, counted.matched), 'job')} ${past}`);
      // Those that cannot be changed are found again each time.
      if (!step.done || !step.more) break;
    }
  } catch (error) { broken = true; trouble(error); }
  const alone = stopped || broken ? 0 : counted.matched - done;
  const note = [`${plural(done, 'job')} ${past}`, alone > 0 && `${count(alone)} had changed meanwhile and ${alone === 1 ? 'was' : 'were'} left alone`, stopped && 'stopped before the end', broken && 'then something went wrong'].filter(Boolean).join('; ');
  replace(outcome, h('p', { class: `why${done ? '' : ' bad'}` }, `${note}.`));
  return true;
}
