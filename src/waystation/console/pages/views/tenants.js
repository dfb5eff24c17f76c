// Who shares a queue by the groups of its jobs: shares, what waits, limits, budgets, and a pause for each.

import { h, held, replace } from '../dom.js';
import { get, queuePlace } from '../api.js';
import { count, plural, precise, span } from '../format.js';
import { button, chip, table } from '../parts.js';

const percent = (part) => (part === null ? '–' : part > 0 && part < 0.001 ? '<0.1 %' : `${Number((100 * part).toPrecision(part < 0.1 ? 2 : 3))} %`);
const cost = (value) => (value >= 1000 ? count(Math.round(value)) : String(Number(value.toPrecision(3))));
const name = (each) => (each.group ? h('span', { class: 'strong' }, each.group) : h('span', { class: 'muted' }, 'jobs without a group'));
const HELD = { paused: 'paused', concurrency: 'at its concurrency', rate: 'at its rate', budget: 'at its budget' };

function meter(part, label, kind = '') {
  return h('meter', { class: kind, min: 0, max: 1, value: Math.min(1, part || 0), 'aria-label': label });
}

function limits(each) {
  const said = [
    each.weight !== 1 && `weight ${each.weight}`, each.concurrency && `${each.concurrency} at once`,
    each.rate && `${cost(each.rate)} in ${span(each.rate_s)}`, each.max_size && `${count(each.max_size)} may wait`,
  ].filter(Boolean);
  return said.join(' · ');
}

// Four fifths of a budget are when the event tells of it, too.
function budget(each) {
  if (!each.budget) return '';
  const part = each.spent_today / each.budget;
  return [meter(part, `${percent(part)} of the budget of ${each.group}`, part >= 1 ? 'bad' : part >= 0.8 ? 'late' : ''),
    h('span', { class: part >= 1 ? 'bad-text' : part >= 0.8 ? 'late-text' : 'muted' }, `${cost(each.spent_today)} of ${cost(each.budget)}`)];
}

// Draws them into a box; a queue whose jobs have no groups has none.
export async function tenants(box, product, queue, offered, act) {
  const reply = await get(queuePlace(product, queue, '/tenants'));
  if (!reply.tenants.length) { replace(box); return; }
  if (held(box)) return;
  const can = offered.includes('pause-group');
  const columns = [{ name: 'Tenant' }, { name: 'Share', kind: 'wide share' }, { name: 'Waiting', kind: 'number' }, { name: 'Active', kind: 'number' },
    { name: 'Limits', kind: 'limits' }, { name: 'Budget today', kind: 'wide share' }, ...(can ? [{ name: '', kind: 'do' }] : [])];
  const rows = reply.tenants.map((each) => ({ cells: [
    [name(each), each.held_by && [' ', chip(HELD[each.held_by] + (each.held_s ? `, ${precise(each.held_s)} more` : ''), 'late')]],
    [meter(each.share, `${percent(each.share)} of the service`), h('span', { title: `${cost(each.service)} in ${plural(each.started, 'start')}` }, percent(each.share))],
    count(each.waiting), each.concurrency ? `${count(each.active)} of ${count(each.concurrency)}` : count(each.active), limits(each), budget(each),
    ...(can ? [each.group && h('div', { class: 'row' }, button(each.paused ? 'Resume' : 'Pause', () => act(each.paused ? 'resume-group' : 'pause-group', { group: each.group })))] : []),
  ] }));
  replace(box, h('section', { class: 'part' }, h('h2', {}, 'Tenants', h('span', { class: 'note' }, reply.seconds ? `shares of what was started in the last ${span(reply.seconds)}` : 'nothing was started lately')),
    table('Tenants', columns, rows), reply.more > 0 && h('p', { class: 'muted' }, `and ${plural(reply.more, 'more group')} with jobs that wait`)));
}
