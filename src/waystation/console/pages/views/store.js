// The store: its memory and load, the memory of each queue, slow commands; and the audit log.

import { h, link, path, replace } from '../dom.js';
import { every, get } from '../api.js';
import { bytes, count, moment, span } from '../format.js';
import { empty, loading, panel, table, tile, time } from '../parts.js';

export async function store(root, { signal }) {
  const body = h('div', {}, loading());
  replace(root, h('h1', {}, 'Store'), body);
  async function draw() {
    const reply = await get('store');
    const most = Math.max(1, ...reply.queues.map((each) => each.bytes));
    replace(body,
      h('div', { class: 'tiles' }, tile('Memory', bytes(reply.used_memory), reply.max_memory ? `of ${bytes(reply.max_memory)}` : 'no limit set'), tile('Commands', `${count(reply.commands_per_s)}/s`, `${count(reply.clients)} connections`),
        tile('Keys', count(reply.keys), reply.evicted ? `${count(reply.evicted)} evicted` : 'none evicted'), tile('Version', reply.version, `up for ${span(reply.uptime_s)} · ${reply.persistence}`)),
      reply.evicted > 0 && h('p', { class: 'why bad' }, 'Keys were evicted: jobs may be lost. Set maxmemory-policy to noeviction.'),
      panel('Memory by queue', reply.queues.length ? table('Memory by queue', [{ name: 'Queue' }, { name: 'Jobs', kind: 'number' }, { name: 'About', kind: 'number' }, { name: 'Share', kind: 'wide' }],
        reply.queues.map((each) => ({ cells: [[link(path('queues', each.product, each.name), { class: 'strong' }, each.name), ' ', h('span', { class: 'product' }, each.product)], count(each.jobs), bytes(each.bytes), h('meter', { min: 0, max: most, value: each.bytes, 'aria-label': `${each.name}: ${bytes(each.bytes)}` })] }))) : empty('No queues yet'),
        reply.left_out > 0 && h('p', { class: 'muted' }, `${count(reply.left_out)} more were not measured.`)),
      panel('Slow commands', reply.slow.length ? table('Slow commands', [{ name: 'When' }, { name: 'Command' }, { name: 'Took', kind: 'number' }],
        reply.slow.map((each) => ({ cells: [time(new Date(each.at * 1000).toISOString()), h('code', {}, each.command), `${each.took_ms < 10 ? each.took_ms.toFixed(1) : Math.round(each.took_ms)} ms`] }))) : empty('None', 'No command took longer than the store’s slowlog-log-slower-than.')));
  }
  await draw();
  every(5, draw, signal, body);
}

// What was noted of an action: the reason as it was given, how much it concerned, and the rest as it is.
function noted(after) {
  let said;
  try { said = JSON.parse(after); } catch { return h('code', {}, after); }
  if (said === null || typeof said !== 'object') return h('code', {}, after);
  const { reason, affected, ids = [], ...rest } = said;
  const words = [reason, affected !== undefined && `${count(affected)} concerned`, ids.length > 0 && `${ids.slice(0, 3).join(', ')}${ids.length > 3 ? ', …' : ''}`].filter(Boolean).join(' · ');
  return [words && h('span', {}, words), Object.keys(rest).length > 0 && h('code', {}, JSON.stringify(rest))];
}

const ENTRIES = 200;

export async function audit(root, { signal }) {
  const list = h('div', {}, loading());
  const told = h('p', { class: 'muted' });
  replace(root, h('h1', {}, 'Audit'), told, list);
  async function draw() {
    const reply = await get(`audit?limit=${ENTRIES}`);
    replace(told, `Who did what, the latest first${reply.total > reply.entries.length ? `; the last ${count(reply.entries.length)} of ${count(reply.total)} are shown` : ''}.`);
    const rows = reply.entries.map((each) => ({ cells: [[time(new Date(Number(each.at)).toISOString()), h('div', { class: 'note' }, moment(Number(each.at)))], [h('span', { class: 'strong' }, each.who), ' ', h('span', { class: 'product' }, each.role)], each.action, each.queue || '–', noted(each.after)] }));
    replace(list, rows.length ? table('Audit log', [{ name: 'When' }, { name: 'Who' }, { name: 'Did' }, { name: 'To' }, { name: 'With', kind: 'data' }], rows) : empty('Nobody has done anything yet'));
  }
  await draw();
  every(5, draw, signal, list);
}
