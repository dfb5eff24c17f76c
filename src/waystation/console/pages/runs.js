// What is under way in the server, seen on every page: actions on many jobs, and redrives of groups of failures.

import { h, held, replace } from './dom.js';
import { get, post, remove } from './api.js';
import { count, exact, plural } from './format.js';
import { button, chip, confirmed, may, time, toast, trouble } from './parts.js';

export const ACTIONS = {
  retry: { title: 'Retry', past: 'retried', of: ['failed', 'dead'] },
  promote: { title: 'Promote', past: 'promoted', of: ['delayed'] },
  cancel: { title: 'Cancel', past: 'cancelled', of: ['waiting', 'prioritized', 'delayed', 'waiting-children', 'active', 'held'] },
  remove: { title: 'Remove', past: 'removed', of: ['waiting', 'prioritized', 'delayed', 'waiting-children', 'completed', 'failed', 'dead'] },
};
const STATES = { running: 'busy', done: 'good', relapsed: 'bad', unseen: 'late', stopped: 'late', 'timed-out': 'late', broken: 'bad' };
const OFTEN = 1000;
const SELDOM = 10000;
// For so long what has ended stays, unless somebody dismisses it.
const LATELY = 300e3;
const SHOWN = 5;

const dismissed = new Set();
let timer = 0;

// Looks at once, and goes on as long as the page is there.
export async function watchRuns() {
  clearTimeout(timer);
  const box = document.getElementById('runs');
  if (!box) return;
  // A key for one queue may not see what concerns all; nothing is shown to it.
  const found = await Promise.all([get('search/runs'), get('redrives')]).catch(() => null);
  if (!box.isConnected) return;
  const every = found ? [...found[0].runs.map(bulk), ...found[1].redrives.map(redrive)].sort((a, b) => (a.run.started_at < b.run.started_at ? 1 : -1)) : [];
  draw(box, every.filter(({ run }) => !dismissed.has(run.id) && (run.state === 'running' || Date.now() - new Date(run.ended_at) < LATELY)));
  timer = setTimeout(watchRuns, every.some(({ run }) => run.state === 'running') ? OFTEN : SELDOM);
}

function draw(box, runs) {
  const text = JSON.stringify(runs);
  if (box.dataset.shown === text || held(box)) return;
  box.dataset.shown = text;
  replace(box, runs.slice(0, SHOWN).map(({ run, says, q, done, most, place }) => h('div', { class: 'run' },
    h('p', {}, chip(run.state, STATES[run.state]), ' ', says, q && [' ', h('code', {}, q)], run.ended_at && [' ', h('span', { class: 'muted' }, time(run.ended_at))]),
    run.state === 'running'
      ? may('operator') && button('Stop', () => remove(`${place}/${run.id}`).then(watchRuns, trouble), 'quiet')
      : h('button', { type: 'button', class: 'quiet', 'aria-label': 'Dismiss', onclick: () => { dismissed.add(run.id); watchRuns(); } }, '×'),
    run.state === 'running' && h('progress', { max: Math.max(1, most), value: done, 'aria-label': says }))),
    runs.length > SHOWN && h('p', { class: 'muted' }, `and ${count(runs.length - SHOWN)} more`));
}

function bulk(run) {
  const { title, past } = ACTIONS[run.action];
  const most = Math.max(run.matched, run.done);
  const alone = run.state === 'done' ? run.matched - run.done : 0;
  const says = run.state === 'running' ? `${title}: ${exact(run.done)} of ${exact(most)} jobs so far.` : `${[`${plural(run.done, 'job')} ${past}`,
    alone > 0 && `${count(alone)} had changed meanwhile and ${alone === 1 ? 'was' : 'were'} left alone`,
    run.state === 'stopped' && 'stopped before the end', run.state === 'broken' && `then it ended: ${run.error || 'something went wrong'}`].filter(Boolean).join('; ')}.`;
  return { run, says, q: run.q, done: run.done, most, place: 'search/runs' };
}

function redrive(run) {
  const ended = run.completed + run.failed + run.gone;
  const said = {
    relapsed: 'Jobs failed again, so the rest was left alone.', unseen: 'Nothing says how the jobs of a step ended, so the rest was left alone.', stopped: 'Somebody stopped it.',
    'timed-out': 'Jobs did not end in time; is a worker running?', broken: run.error || 'The store did not answer.', running: '',
    done: run.gone ? `Completed but for ${plural(run.gone, 'job')}: removed, or not stored any more, and nothing says how it ended.` : 'All of them were completed.',
  }[run.state];
  const gone = run.gone ? `, ${count(run.gone)} removed or not stored any more` : '';
  const says = `Retry of a group of ${run.queue}: ${count(run.completed)} of ${count(run.total)} completed, ${count(run.failed)} failed again${gone}. ${said}`;
  return { run, says, done: ended, most: run.total, place: 'redrives' };
}

// Count, ask, and let the server go through all of them; it goes on when this page is closed.
// `whole` is what it is called to people; without it, it is all that the search matches.
export async function actOnAll(name, q, { whole = '' } = {}) {
  const { title } = ACTIONS[name];
  const place = `search/actions/${name}`;
  const counted = await post(place, { q, dry_run: true });
  if (!counted.matched) { toast(`There is nothing to ${name}: no job that matches is in a state for it.`); return false; }
  const where = counted.queues.map((each) => `${each.queue} ${count(each.matched)}`).slice(0, 6).join(', ');
  const jobs = plural(counted.matched, 'job');
  const chosen = await confirmed({
    title: `${title} ${whole || 'all that match'}`, action: `${title} ${counted.more ? 'all' : jobs}`, danger: name === 'remove' || name === 'cancel', confirm: name === 'remove' ? String(counted.matched) : '',
    text: [whole ? `${jobs[0].toUpperCase()}${jobs.slice(1)}` : [h('code', {}, q), ` matches ${counted.more ? 'at least ' : ''}${jobs} for this: ${where}`], '. What is added or ends from now on is left alone.',
      counted.more && ' There are more jobs than could be counted; they are included.', ' The console goes on with it when you leave this page.'],
    more: h('ul', { class: 'examples' }, counted.examples.map(({ queue, job }) => h('li', {}, h('span', { class: 'strong' }, job.name || job.id), ` ${job.id} · ${queue} `, h('span', { class: job.error ? 'bad-text' : 'muted' }, job.error || job.data))),
      counted.matched > counted.examples.length && h('li', { class: 'muted' }, `and ${count(counted.matched - counted.examples.length)} more`)),
  });
  if (!chosen) return false;
  // Jobs of a whole state may move in and out of it meanwhile.
  await post(place, { q, until: counted.until, expected: counted.matched, reason: chosen.reason, whole: true, beyond: counted.more || Boolean(whole) });
  await watchRuns();
  return true;
}
