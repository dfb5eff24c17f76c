// The store: its memory and load, the memory of each queue, slow commands; and the audit log.

import { h, link, path, replace } from '../dom.js';
import { every, get } from '../api.js';
import { bytes, count, span } from '../format.js';
import { empty, panel, table, tile, time } from '../parts.js';

export async function store(root, { signal }) {
  const body = h('div', {});
  replace(root, h('h1', {}, 'Store'), body);
  async function draw() {
    const told = await get('store');
    const most = Math.max(1, ...told.queues.map((each) => each.bytes));
    replace(body,
      h('div', { class: 'tiles' }, tile('Memory', bytes(told.used_memory), told.max_memory ? `of ${bytes(told.max_memory)}` : 'no limit set'), tile('Commands', `${count(told.commands_per_s)}/s`, `${count(told.clients)} connections`),
        tile('Keys', count(told.keys), told.evicted ? `${count(told.evicted)} evicted` : 'none evicted'), tile('Version', told.version, `up for ${span(told.uptime_s)} · ${told.persistence}`)),
      told.evicted > 0 && h('p', { class: 'why bad' }, 'Keys were evicted: jobs may be lost. Set maxmemory-policy to noeviction.'),
      panel('Memory by queue', told.queues.length ? table('Memory by queue', [{ name: 'Queue' }, { name: 'Jobs', kind: 'number' }, { name: 'About', kind: 'number' }, { name: 'Share', kind: 'wide' }],
        told.queues.map((each) => ({ cells: [link(path('queues', each.product, each.name), {}, each.name), count(each.jobs), bytes(each.bytes), h('meter', { min: 0, max: most, value: each.bytes, 'aria-label': `${each.name}: ${bytes(each.bytes)}` })] }))) : empty('No queues yet')),
      panel('Slow commands', told.slow.length ? table('Slow commands', [{ name: 'When' }, { name: 'Command' }, { name: 'Took', kind: 'number' }],
        told.slow.map((each) => ({ cells: [time(new Date(each.at * 1000).toISOString()), h('code', {}, each.command), `${each.took_ms < 10 ? each.took_ms.toFixed(1) : Math.round(each.took_ms)} ms`] }))) : empty('None', 'No command took longer than the store’s slowlog-log-slower-than.')));
  }
  await draw();
  every(5, draw, signal);
}

export async function audit(root) {
  const told = await get('audit?limit=200');
  const rows = told.entries.map((each) => ({ cells: [time(new Date(Number(each.at)).toISOString()), [h('span', { class: 'strong' }, each.who), h('span', { class: 'product' }, each.role)], each.action, each.queue || '–', h('code', {}, each.after)] }));
  replace(root, h('h1', {}, 'Audit'), h('p', { class: 'muted' }, 'Who did what, the latest first.'),
    rows.length ? table('Audit log', [{ name: 'When' }, { name: 'Who' }, { name: 'Did' }, { name: 'To' }, { name: 'With', kind: 'data' }], rows) : empty('Nobody has done anything yet'));
}
