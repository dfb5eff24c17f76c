// Failures as groups, a line each, and redrives of a group: one job, a canary of five, or all.

import { h, link, path, replace } from '../dom.js';
import { every, get, post, queuePlace } from '../api.js';
import { spark } from '../charts.js';
import { count, plural } from '../format.js';
import { button, chip, confirmed, empty, loading, may, table, time, toast, trouble } from '../parts.js';
import { watchRuns } from '../runs.js';

const MODES = [['canary', 'A canary of five'], ['one', 'One job'], ['all', 'All: five first, then more and more; when one fails again, the rest is left alone']];

export async function failures(root, { query, signal }) {
  const list = h('div', {}, loading());
  const filter = h('input', { type: 'search', id: 'filter', value: query.get('of') || '', placeholder: 'Filter by queue, name or error', 'aria-label': 'Filter failures', oninput: () => show() });
  let reply = { groups: [], complete: true };
  replace(root, h('h1', {}, 'Failures'), h('p', { class: 'muted' }, 'Jobs that failed for good, grouped by what went wrong; the largest group comes first.'), h('div', { class: 'row' }, filter), list);

  async function redrive(group) {
    try {
      const place = queuePlace(group.product, group.queue, '/redrives');
      const chosen = await confirmed({
        title: `Retry · ${classOf(group)}`, action: 'Retry', choices: MODES,
        text: `${group.is_complete ? '' : 'At least '}${plural(group.count, 'job')} of ${group.name} in ${group.queue} failed like this.`,
      });
      if (!chosen) return;
      await post(place, { group: group.id, mode: chosen.choice, reason: chosen.reason });
      toast('The retry has begun.', 'good');
      await Promise.all([watchRuns(), draw()]);
    } catch (error) { trouble(error); }
  }

  function show() {
    const text = filter.value.toLowerCase();
    const shown = reply.groups.filter((each) => `${each.product}/${each.queue} ${each.name} ${each.error} ${each.message}`.toLowerCase().includes(text));
    replace(list, !reply.complete && h('p', { class: 'muted' }, `The newest ${count(reply.looked_at)} failures were looked at; there are more. A number with + is the least that there are.`),
      shown.length ? table('Groups of failures', COLUMNS, shown.map((group) => line(group, redrive)))
        : reply.groups.length ? empty('No failure is like this') : empty('Nothing has failed', 'Jobs that fail for good appear here.'));
  }

  async function draw() {
    reply = await get('failures');
    show();
  }
  await draw();
  every(2, draw, signal, list);
}

// The class without its module, as the worker's log has it.
const classOf = (group) => (group.error || 'Error').split('.').pop();
const isNew = (group) => group.is_complete && group.first_at && Date.now() - new Date(group.first_at) < 3600e3;
const COLUMNS = [{ name: 'Error', kind: 'group' }, { name: 'Queue', kind: 'whole' }, { name: 'Jobs', kind: 'number' }, { name: 'First', kind: 'when' }, { name: 'Last', kind: 'when aside' }, { name: 'Last hour', kind: 'trend' }, { name: 'Actions', kind: 'do' }];

// The jobs of a group are found by the search, where all of them can be retried or removed, too.
const jobsOf = (group) => `/search?q=${encodeURIComponent(`failure:${group.id} product:${group.product} queue:"${group.queue}"`)}`;

function line(group, redrive) {
  const says = group.signature || group.message;
  return { cells: [
    [h('div', { class: 'error' }, h('span', { class: 'strong', title: group.error }, classOf(group)), h('span', { class: 'product' }, group.name), isNew(group) && chip('new', 'bad')), h('div', { class: 'signature', title: group.message }, says)],
    link(path('queues', group.product, group.queue), {}, group.queue),
    h('span', { class: 'bad-text strong' }, `${count(group.count)}${group.is_complete ? '' : '+'}`),
    [!group.is_complete && 'before ', time(group.first_at)], time(group.last_at),
    spark(group.trend, `${group.name}: failures in the last hour`, { width: 120, kind: 'badly' }),
    h('div', { class: 'row' }, link(jobsOf(group), { class: 'button' }, 'Jobs'), may('operator') && button('Retry…', () => redrive(group))) ] };
}
