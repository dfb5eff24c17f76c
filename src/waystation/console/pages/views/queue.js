// One queue: charts, what can be done to it, its jobs by state, and what happens in it right now.

import { h, held, link, path, replace } from '../dom.js';
import { every, follow, get, post, queuePlace } from '../api.js';
import { area, legend } from '../charts.js';
import { count, moment, plural, rate, span } from '../format.js';
import { CAUSES, asked, button, chip, confirmed, empty, facts, loading, may, panel, spelled, table, time, toast, trouble } from '../parts.js';
import { actOnAll } from '../runs.js';
import { past, ranges } from './history.js';
import { P } from './overview.js';
import { tenants } from './tenants.js';

const PAGE = innerWidth > 760 ? 50 : 20;
// Every so many turns the queue is asked why it moves or does not.
const EXPLAINED = 5;
const LABELS = {
  pause: 'Pause', resume: 'Resume', 'retry-all': 'Retry all failed', 'promote-all': 'Promote all delayed', drain: 'Drain…', clean: 'Clean…', obliterate: 'Delete the queue…',
  'pause-group': 'Pause', 'resume-group': 'Resume',
  retry: 'Retry', promote: 'Promote', cancel: 'Cancel', remove: 'Remove',
};
const DANGER = ['drain', 'clean', 'obliterate'];
// What is undone as easily is done however many jobs there are by then.
const UNDONE = ['pause', 'resume', 'pause-group', 'resume-group'];
const ALWAYS = [...UNDONE, 'obliterate'];
// What an action does to so many jobs, before it is done.
const EFFECTS = {
  pause: (jobs) => `Workers take no more jobs from it until it is resumed; ${jobs} ready now.`,
  resume: (jobs) => `Workers go on with it; ${jobs} ready now.`,
  'pause-group': (jobs, one) => `No job of it is started until it is resumed; ${jobs} ${one ? 'waits' : 'wait'} now.`,
  'resume-group': (jobs, one) => `Its jobs take turns again; ${jobs} ${one ? 'waits' : 'wait'} now.`,
  drain: (jobs, one) => `${jobs} that ${one ? 'waits is' : 'wait are'} removed for good. Active, delayed and ended ones stay.`,
  clean: (jobs, one) => `${jobs} that ${one ? 'was' : 'were'} completed ${one ? 'is' : 'are'} removed for good.`,
  obliterate: (jobs) => `The queue is removed for good, with all it has: ${jobs}.`,
  retry: (jobs, one) => `${jobs} ${one ? 'runs' : 'run'} again.`,
  promote: (jobs, one) => `${jobs} ${one ? 'becomes' : 'become'} ready now.`,
  cancel: (jobs, one) => `${jobs} ${one ? 'is' : 'are'} cancelled; what runs is stopped.`,
  remove: (jobs, one) => `${jobs} ${one ? 'is' : 'are'} removed for good.`,
};

export async function act(product, name, action, asked = {}) {
  const place = queuePlace(product, name, `/actions/${action}`);
  const counted = await post(place, { ...asked, dry_run: true });
  if (!counted.affected && !ALWAYS.includes(action)) { toast('There is nothing to do: no job is in a state for it.'); return false; }
  const danger = DANGER.includes(action) || action === 'remove' || action === 'cancel';
  const chosen = await confirmed({
    title: `${(LABELS[action] || action).replace('…', '')} · ${asked.group || name}`, danger,
    text: EFFECTS[action](plural(counted.affected, 'job'), counted.affected === 1),
    action: LABELS[action]?.replace('…', '') || action, confirm: DANGER.includes(action) ? name : '',
  });
  if (!chosen) return false;
  const done = await post(place, { ...asked, reason: chosen.reason, confirm: chosen.confirm, ...(UNDONE.includes(action) ? {} : { expected: counted.affected }) });
  const left = counted.affected - done.affected;
  toast(`${LABELS[action]?.replace('…', '') || action}: done, ${plural(done.affected, 'job')}${left > 0 ? `; ${count(left)} had changed meanwhile` : ''}.`, 'good');
  return true;
}

export async function queue(root, { parts, query, signal }) {
  const [product, name] = parts;
  const place = (rest = '') => queuePlace(product, name, rest);
  let reply = await get(place());
  let state = reply.states.includes(query.get('state')) ? query.get('state') : firstState(reply);
  let offset = Math.max(0, Number(query.get('offset')) || 0);
  const picked = new Set();
  let whole = false;
  let days = 0;
  const range = ranges((chosen) => {
    days = chosen;
    if (!days) { drawHead(); return; }
    const box = h('div', { class: 'contents' }, loading());
    replace(charts, box);
    past(box, days, product, name).catch(trouble);
  });
  const [why, actions, charts, limits, shares, tabs, bulk, list, live] = Array.from({ length: 9 }, () => h('div', { class: 'part' }));
  const title = h('h1', {});
  let turns = 0;
  let shown = '';
  let strips = '';
  const feed = h('ol', { class: 'feed', 'aria-label': 'What happens now' });

  async function refresh(acted = false) {
    reply = await get(place());
    drawHead(acted);
    drawTabs();
    turns += 1;
    if (turns % EXPLAINED === 0) { explain(); share(); }
    // Whoever picks jobs, reads on or stands in the list keeps it as it is.
    if (!picked.size && !offset && !held(list)) await drawJobs();
  }
  async function again() {
    turns = -1;
    await refresh(true);
  }
  // That waits grow is seen from one sample to the next, which nobody who asks once can.
  const explain = () => get(place('/why')).then(({ cause, sentence }) => {
    if (signal.aborted) return;
    const behind = !CAUSES[cause] && reply.trouble?.cause === 'behind' && reply.trouble.text;
    replace(why, h('p', { class: `why ${CAUSES[behind ? 'behind' : cause]?.[1] || ''}` }, spelled(sentence), behind && ` It falls behind: ${behind}.`));
  }).catch(() => {});
  // All jobs of a state, those on other pages included; the server goes on with it by itself.
  const doingAll = (action, of) => async () => {
    try {
      if (!await actOnAll(action, `state:${of} product:${product} queue:"${name}"`, { whole: `all ${of} jobs of ${name}` })) return;
      picked.clear();
      whole = false;
      await again();
    } catch (error) { trouble(error); }
  };
  const share = () => tenants(shares, product, name, reply.actions, async (action, asked) => {
    try { if (await act(product, name, action, asked)) { await again(); await share(); } } catch (error) { trouble(error); }
  }).catch(trouble);
  const doing = (action, asked) => async () => {
    try { if (await act(product, name, action, asked?.())) { picked.clear(); await again(); } } catch (error) { trouble(error); }
  };

  async function add() {
    const job = await asked({
      title: `Add a job · ${name}`, action: 'Add',
      text: product === 'routing' ? 'A worker that handles this type does it.' : 'A worker of this queue does it.',
      fields: [
        { id: 'name', label: product === 'routing' ? 'Type' : 'Name', required: true }, { id: 'data', label: 'Data, as JSON', kind: 'json', value: '{}' },
        { id: 'options', label: 'Options, as JSON', kind: 'json', hint: product === 'routing' ? '{"priority": "high"}' : '{"attempts": 5, "delay": 60}' }],
      save: (values) => post(place('/jobs'), { ...values, options: values.options || {} }),
    });
    if (!job) return;
    toast(`Job ${job.id} was added.`, 'good');
    await again().catch(trouble);
  }

  async function limit() {
    const { concurrency, rate_limit: limited } = reply.about;
    const saved = await asked({
      title: `Limits · ${name}`, action: 'Set', text: 'For all workers together; 0 is no limit.',
      fields: [
        { id: 'most', label: 'Active jobs at once', kind: 'number', value: concurrency || 0 },
        { id: 'max', label: 'Jobs that start', kind: 'number', value: limited?.max || 0 }, { id: 'duration_s', label: 'in so many seconds', kind: 'number', value: (limited?.ms || 1000) / 1000 }],
      save: async ({ most, max, duration_s }) => {
        await post(place('/actions/set-concurrency'), { max: most });
        return post(place('/actions/set-rate'), max ? { max, duration_s } : {});
      },
    });
    if (!saved) return;
    toast('The limits are set.', 'good');
    await again().catch(trouble);
  }

  function drawHead(acted = false) {
    const offered = ['pause', 'resume', 'retry-all', 'promote-all', 'drain', 'clean', 'obliterate'].filter((each) =>
      reply.actions.includes(each) && each !== (reply.paused ? 'pause' : 'resume'));
    const useful = { 'retry-all': reply.counts[reply.failed], 'promote-all': reply.counts.delayed };
    const wanted = offered.filter((each) => useful[each] !== 0);
    // What stays as it is is not drawn anew, so that nobody presses a button that is just gone.
    const look = [reply.paused, reply.actions.length > 0, ...wanted].join();
    if (look !== shown && (acted || !held(actions))) {
      shown = look;
      replace(title, name, reply.paused && [' ', chip('paused')]);
      replace(actions, reply.actions.length ? h('div', { class: 'row wrap' }, may('operator') && ['bullmq', 'routing'].includes(product) && button('Add a job', add, 'primary'), reply.actions.includes('set-rate') && button('Limits…', limit), wanted.map((each) =>
        button(LABELS[each], each.endsWith('-all') ? doingAll(each.slice(0, -4), each === 'retry-all' ? reply.failed : 'delayed') : doing(each, each === 'clean' ? () => ({ state: 'completed' }) : undefined), DANGER.includes(each) ? 'danger quiet' : ''))) : null);
    }
    replace(limits, about(reply.about));
    if (days) return;
    const points = reply.points.slice(-150);
    const times = points.map((point) => point[P.at]);
    const of = (at) => points.map((point) => point[at]);
    replace(charts,
      panel('Depth', area([{ name: 'ready', values: of(P.ready), kind: 'calm' }, { name: 'active', values: of(P.active), kind: 'busy' }], times, `Ready and active jobs of ${name}`, count, { columns: 3 }), legend(['calm', 'ready'], ['busy', 'active'])),
      panel('Jobs per second', area([{ name: 'completed', values: of(P.done), kind: 'good' }, { name: 'failed', values: of(P.wrong), kind: 'bad' }, { name: 'added', values: of(P.added), kind: 'calm' }], times, `Jobs of ${name} per second`, rate, { columns: 3 }), legend(['good', 'completed'], ['bad', 'failed'], ['calm', 'added'])),
      panel('Longest wait', area([{ name: 'waited', values: of(P.oldest), kind: 'late' }], times, `How long the oldest ready job of ${name} has waited`, span, { columns: 3, least: 10 }), legend(['late', 'age of the oldest ready job'])));
  }

  function choose(each) {
    state = each;
    offset = 0;
    picked.clear();
    whole = false;
    // In the address, so that the same is shown after a reload, and to whoever gets the link.
    history.replaceState(null, '', `#${path('queues', product, name)}?state=${encodeURIComponent(state)}`);
    drawTabs();
    drawJobs().catch(trouble);
  }

  function drawTabs() {
    const look = JSON.stringify([state, reply.counts]);
    if (look === strips) return;
    strips = look;
    const before = tabs.firstChild?.scrollLeft;
    const focused = [...(tabs.firstChild?.children || [])].indexOf(document.activeElement);
    const strip = h('div', { class: 'tabs', role: 'group', 'aria-label': 'States' }, reply.states.map((each) =>
      h('button', { type: 'button', 'aria-pressed': String(each === state), onclick: () => choose(each) }, each, ' ', h('span', { class: 'count' }, count(reply.counts[each] || 0)))));
    replace(tabs, strip);
    const pressed = strip.querySelector('[aria-pressed="true"]');
    strip.scrollLeft = before ?? pressed.offsetLeft - strip.offsetLeft - 40;
    if (focused >= 0) strip.children[focused].focus({ preventScroll: true });
  }

  async function drawJobs() {
    const page = await get(place(`/jobs?state=${encodeURIComponent(state)}&offset=${offset}&limit=${PAGE}`));
    const can = { failed: ['retry', 'remove'], dead: ['retry', 'remove'], delayed: ['promote', 'cancel', 'remove'], completed: ['remove'], active: ['cancel'] }[state] || ['cancel', 'remove'];
    const offered = can.filter((each) => reply.actions.includes(each));
    const drawBulk = () => replace(bulk, picked.size > 0 && h('div', { class: 'row wrap bulk', role: 'group', 'aria-label': 'Picked jobs' }, h('span', { class: 'strong', role: 'status' }, whole ? `All ${count(page.total)} ${state} jobs picked` : `${picked.size} picked`),
      !whole && page.total > page.jobs.length && page.jobs.every((job) => picked.has(job.id)) && button(`Pick all ${count(page.total)}`, () => { whole = true; drawBulk(); }),
      offered.map((each) => button(LABELS[each], whole ? doingAll(each, state) : doing(each, () => ({ ids: [...picked] })), each === 'remove' ? 'danger quiet' : '')),
      button('Clear', () => { picked.clear(); whole = false; for (const box of list.querySelectorAll('input[type=checkbox]')) box.checked = false; drawBulk(); }, 'quiet')));
    const pick = (id) => h('input', { type: 'checkbox', 'aria-label': `Pick job ${id}`, checked: picked.has(id), onchange: (event) => { whole = false; if (event.target.checked) picked.add(id); else picked.delete(id); drawBulk(); } });
    const pickAll = h('input', { type: 'checkbox', 'aria-label': 'Pick all jobs of this page', checked: page.jobs.length > 0 && page.jobs.every((job) => picked.has(job.id)),
      onchange: (event) => { whole = false; for (const { id } of page.jobs) if (event.target.checked) picked.add(id); else picked.delete(id); for (const box of list.querySelectorAll('td input[type=checkbox]')) box.checked = event.target.checked; drawBulk(); } });
    const columns = [...(offered.length ? [{ name: 'Pick', kind: 'pick', head: pickAll }] : []), { name: 'Job' }, { name: state === reply.failed ? 'Error' : 'Data', kind: 'data' }, { name: 'Tries', kind: 'number' }, { name: whenName(state) }];
    const rows = page.jobs.map((job) => ({ cells: [...(offered.length ? [pick(job.id)] : []),
      [link(path('queues', product, name, job.id), { class: 'strong' }, job.name || job.id), ' ', h('span', { class: 'product' }, job.id)],
      job.error ? h('span', { class: 'bad-text' }, job.error) : h('code', {}, job.data), `${job.attempts}/${job.max_attempts}`, time(job.due_at || job.finished_at || job.started_at || job.created_at)] }));
    replace(list, rows.length ? table('Jobs', columns, rows) : empty(`No ${state} jobs`),
      page.total > PAGE && h('div', { class: 'row spread' }, h('span', { class: 'muted' }, `${count(offset + 1)} to ${count(offset + page.jobs.length)} of ${count(page.total)}`),
        h('div', { class: 'row' }, offset > 0 && button('Newer', () => { offset = Math.max(0, offset - PAGE); drawJobs().catch(trouble); }),
          offset + PAGE < page.total && button('Older', () => { offset += PAGE; drawJobs().catch(trouble); }))));
    drawBulk();
  }

  replace(root, h('p', { class: 'crumbs' }, link('/overview', {}, 'Overview'), ' / ', product),
    title, why, actions, range, h('div', { class: 'charts three' }, charts), limits, shares, tabs, bulk, h('div', { class: 'jobs-and-events' }, list, live));
  charts.className = 'contents';
  drawHead();
  drawTabs();
  await drawJobs();
  explain();
  share();
  const silent = h('p', { class: 'muted' }, 'Nothing since you opened this page.');
  replace(live, panel('What happens now, the latest 20', silent, feed));
  follow(place('/live'), {
    events: (events) => {
      silent.remove();
      feed.prepend(...events.slice(-20).reverse().map((each) => h('li', {}, chip(each.event, { completed: 'good', failed: 'bad', active: 'busy' }[each.event]), ' ',
        each.job ? link(path('queues', product, name, each.job), { title: each.job }, each.job) : '', h('span', { class: 'muted' }, ` ${moment(each.at)}`))));
      while (feed.children.length > 20) feed.lastChild.remove();
    },
  }, signal);
  every(3, () => refresh(), signal);
}
const whenName = (state) => ({ completed: 'Ended', failed: 'Failed', dead: 'Added', delayed: 'Due', active: 'Started' }[state] || 'Added');

function firstState(reply) {
  const asked = [reply.failed, 'active', ...reply.states];
  return reply.states.find((each) => each === 'waiting' && reply.counts[each]) || asked.find((each) => reply.counts[each]) || reply.states[0];
}

function about(known) {
  const pairs = [
    ['Library', known.version], ['At once, at most', known.concurrency],
    ['Rate limit', known.rate_limit && `${count(known.rate_limit.max)} in ${span(known.rate_limit.ms / 1000)}`],
    ['Paused types', known.paused_types?.join(', ')],
    ['Lists', known.lists && Object.entries(known.lists).filter(([, length]) => length).map(([key, length]) => `${key} ${count(length)}`).join(' · ')],
  ];
  return facts(pairs);
}
