// All queues and rooms: a row for each that changes while one looks, those in trouble first; totals and charts.

import { h, held, link, path, replace } from '../dom.js';
import { follow, get } from '../api.js';
import { area, legend, spark } from '../charts.js';
import { count, plural, rate, span } from '../format.js';
import { CAUSES, button, chip, empty, loading, panel, spelled, tile, trouble } from '../parts.js';
import { past, ranges } from './history.js';

// The places of the numbers in a point.
export const P = { at: 0, ready: 1, active: 2, delayed: 3, failed: 4, added: 5, done: 6, wrong: 7, oldest: 8 };
const SHOWN = 60;
const AT_ONCE = 50;
const ROOM = 'waitingroom';
const failed = (q) => q.points[q.points.length - 1][P.failed];
// Of those that are in the same trouble, first where most jobs wait.
const SORTS = {
  trouble: (q) => (q.trouble ? -q.trouble.weight * 1e9 - q.ready : 0),
  name: (q) => q.name, ready: (q) => -q.ready, active: (q) => -(q.counts.active || 0), delayed: (q) => -(q.counts.delayed || 0), failed: (q) => -failed(q),
  oldest: (q) => -q.oldest_s, rate: (q) => -q.completed_per_s,
};
let sort = 'trouble';

export async function overview(root, { signal }) {
  const reply = await get('overview');
  const filter = h('input', { type: 'search', id: 'filter', placeholder: 'Filter queues', 'aria-label': 'Filter queues', oninput: () => draw() });
  const [tiles, list, charts, order, state] = [h('div', { class: 'tiles' }), h('div', {}), h('div', { class: 'charts' }), h('div', { class: 'tabs order', role: 'group', 'aria-label': 'Sort' }), h('span', { class: 'note' })];
  let days = 0;
  const range = ranges((chosen) => {
    days = chosen;
    charts.className = days ? 'charts three' : 'charts';
    if (!days) { draw(); return; }
    const box = h('div', { class: 'contents' }, loading());
    replace(charts, box);
    past(box, days).catch(trouble);
  });
  const drawn = new Map();
  let most = AT_ONCE;
  replace(root, h('h1', {}, 'Overview'), tiles,
    h('div', { class: 'row spread' }, h('h2', {}, 'Queues ', state), h('div', { class: 'row' }, order, filter)), list,
    h('div', { class: 'row spread' }, h('h2', {}, 'All queues together'), range), charts);

  function by(chosen) {
    const at = document.activeElement?.closest('th') && chosen;
    sort = chosen;
    draw();
    if (at) list.querySelector(`th [data-key="${at}"]`)?.focus();
  }

  function draw() {
    const text = filter.value.toLowerCase();
    const shown = reply.queues.filter((q) => `${q.product}/${q.name}`.toLowerCase().includes(text))
      .sort((a, b) => { const [x, y] = [SORTS[sort](a), SORTS[sort](b)]; return x < y ? -1 : x > y ? 1 : a.name < b.name ? -1 : 1; });
    drawTotals(reply.queues.filter((q) => q.product !== ROOM), tiles, days ? null : charts);
    const bad = reply.queues.filter((q) => q.trouble).length;
    replace(state, !reply.queues.length ? '' : bad ? `${count(bad)} of ${count(reply.queues.length)} need${bad === 1 ? 's' : ''} a look.` : 'Nothing looks wrong.');
    replace(order, [['trouble', 'Trouble first'], ['name', 'By name']].map(([each, name]) => h('button', { type: 'button', 'aria-pressed': String(sort === each), onclick: () => { by(each); order.querySelector('[aria-pressed="true"]').focus(); } }, name)));
    const more = shown.length - most;
    replace(list, shown.length ? rows(shown.slice(0, most), drawn, by) : empty(reply.queues.length ? 'No queue has this name' : `No queues yet in ${reply.store}`, reply.queues.length ? '' : ['A queue appears here as soon as a job is added to it, by your program or in a shell:', h('br', {}), h('code', {}, 'waystation bullmq add mail send \'{"to": "ada"}\''), h('br', {}), 'Those of BullMQ under another prefix appear when ', h('code', {}, 'console.prefixes'), ' names it.']),
      more > 0 && h('p', {}, button(`Show ${count(Math.min(more, 4 * AT_ONCE))} more of ${count(more)}`, () => { most += 4 * AT_ONCE; draw(); })),
      reply.left_out > 0 && h('p', { class: 'muted' }, `${plural(reply.left_out, 'more queue')} of this store ${reply.left_out === 1 ? 'is' : 'are'} not followed here: each opens by its address, and `, h('code', {}, 'waystation queues'), ' lists them all.'));
  }
  draw();
  follow('live', {
    sample: (samples) => {
      const known = new Map(reply.queues.map((q) => [`${q.product}/${q.name}`, q]));
      reply.queues = samples.map(([product, name, point, counts, paused, workers, found]) => {
        const points = [...(known.get(`${product}/${name}`)?.points || []), point].slice(-SHOWN);
        return { product, name, points, counts, paused, workers, trouble: found, ready: point[P.ready], oldest_s: point[P.oldest], completed_per_s: point[P.done], failed_per_s: point[P.wrong] };
      });
      if (!held(list) && !held(order)) draw();
    },
  }, signal);
}

function summed(queues, place) {
  const length = Math.max(0, ...queues.map((q) => q.points.length));
  return Array.from({ length }, (_, index) => queues.reduce((sum, q) => {
    const point = q.points[q.points.length - length + index];
    return sum + (point ? point[place] : 0);
  }, 0));
}

function drawTotals(queues, tiles, charts) {
  const of = Object.fromEntries(['ready', 'active', 'done', 'wrong', 'added', 'failed'].map((each) => [each, summed(queues, P[each])]));
  const last = (each) => of[each].at(-1) || 0;
  const times = queues.reduce((best, q) => (q.points.length > best.length ? q.points : best), []).map((point) => point[P.at]);
  const waits = Math.max(0, ...queues.map((q) => q.oldest_s));
  const line = (each, title, kind) => spark(of[each], title, { width: 120, height: 34, kind });
  replace(tiles,
    tile('Ready', count(last('ready')), last('ready') ? `longest wait ${span(waits)}` : 'nothing waits', line('ready', 'Ready jobs of all queues')),
    tile('Active', count(last('active')), plural(queues.reduce((sum, q) => sum + (q.workers || 0), 0), 'BullMQ worker'), line('active', 'Active jobs of all queues')),
    tile('Completed', `${rate(last('done'))}/s`, `${rate(last('added'))}/s added`, line('done', 'Jobs completed per second', 'well')),
    tile('Failed for good', count(last('failed')), `${rate(last('wrong'))}/s now`, line('wrong', 'Jobs failed per second', 'badly')));
  if (charts) replace(charts,
    panel('Depth', area([{ name: 'ready', values: of.ready, kind: 'calm' }, { name: 'active', values: of.active, kind: 'busy' }], times, 'Jobs that are ready and active in all queues', count),
      legend(['calm', 'ready'], ['busy', 'active'])),
    panel('Jobs per second', area([{ name: 'completed', values: of.done, kind: 'good' }, { name: 'failed', values: of.wrong, kind: 'bad' }], times, 'Jobs completed and failed per second in all queues', rate),
      legend(['good', 'completed'], ['bad', 'failed'])));
}

const HEAD = [['Queue', 'named', 'name'], ['Ready', 'number', 'ready'], ['Active', 'number aside', 'active'], ['Delayed', 'number aside', 'delayed'], ['Failed', 'number', 'failed'], ['Longest wait', 'number', 'oldest'], ['Per second', 'number', 'rate'], ['Depth, last minutes', 'wide aside', '']];

const rows = (queues, drawn, by) => h('div', { class: 'scroll' }, h('table', { class: 'queues', 'aria-label': 'Queues' },
  h('thead', {}, h('tr', {}, HEAD.map(([name, kind, key]) => h('th', { scope: 'col', class: kind, 'aria-sort': key && key === sort ? (key === 'name' ? 'ascending' : 'descending') : null },
    key ? h('button', { type: 'button', class: 'sort', 'data-key': key, onclick: () => by(key) }, name) : name)))),
  h('tbody', {}, queues.map((q) => row(q, drawn)))));

// A row is drawn anew only when something in it has changed: most of many queues stand still.
function row(q, drawn) {
  const key = `${q.product}/${q.name}`;
  const [bad, depths] = [failed(q), q.points.map((point) => point[P.ready])];
  const state = JSON.stringify([q.ready, q.counts, bad, q.ready && span(q.oldest_s), rate(q.completed_per_s), q.paused, q.trouble, depths]);
  const before = drawn.get(key);
  if (before?.state === state) return before.element;
  const [says, kind] = (q.product === ROOM && q.trouble?.cause === 'nobody') ? ['not served', 'bad'] : CAUSES[q.trouble?.cause] || [];
  const place = q.product === ROOM ? '/rooms' : path('queues', q.product, q.name);
  const cells = [
    [h('div', { class: 'head' }, link(place, { class: 'strong' }, q.name), h('span', { class: 'product' }, q.product === ROOM ? 'waiting room' : q.product), says ? chip(says, kind) : q.paused && chip('closed')),
      q.trouble && h('p', { class: 'reason', title: q.trouble.text }, spelled(q.trouble.text))],
    count(q.ready), count(q.counts.active || 0), count(q.counts.delayed || 0), h('span', { class: bad ? 'bad-text' : '' }, count(bad)),
    q.ready && q.product !== ROOM ? span(q.oldest_s) : '–', rate(q.completed_per_s), spark(depths, `Ready jobs of ${q.name}, now ${q.ready}`, { width: 150 }),
  ];
  const element = h('tr', { class: kind && `marked ${kind}` }, cells.map((cell, index) => h('td', { class: HEAD[index][1], 'data-name': HEAD[index][0] }, cell)));
  drawn.set(key, { state, element });
  return element;
}
