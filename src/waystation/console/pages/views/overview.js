// All queues: totals with charts, and a row for each that changes while one looks.

import { h, held, link, path, replace } from '../dom.js';
import { follow, get } from '../api.js';
import { area, legend, spark } from '../charts.js';
import { count, plural, rate, span } from '../format.js';
import { button, chip, empty, loading, panel, tile, trouble } from '../parts.js';
import { past, ranges } from './history.js';

// The places of the numbers in a point.
export const P = { at: 0, ready: 1, active: 2, delayed: 3, failed: 4, added: 5, done: 6, wrong: 7, oldest: 8 };
const SHOWN = 60;
const AT_ONCE = 200;
const SORTS = {
  // Where jobs fail now, then where jobs wait and nobody works; the rest by name.
  trouble: (q) => -troubled(q),
  name: (q) => q.name, ready: (q) => -q.ready, active: (q) => -(q.counts.active || 0), failed: (q) => -failed(q),
  rate: (q) => -q.completed_per_s, oldest: (q) => -q.oldest_s,
};
const failed = (q) => q.points[q.points.length - 1][P.failed];
const troubled = (q) => (q.failed_per_s ? 2 : 0) + (q.ready && q.workers === 0 ? 1 : 0);
let sort = 'trouble';

export async function overview(root, { signal }) {
  const reply = await get('overview');
  const filter = h('input', { type: 'search', id: 'filter', placeholder: 'Filter queues', 'aria-label': 'Filter queues', oninput: () => draw() });
  const choose = h('select', { id: 'sort', 'aria-label': 'Sort by', onchange: () => { sort = choose.value; draw(); } },
    Object.entries({ trouble: 'Trouble first', name: 'Name', ready: 'Most ready', active: 'Most active', failed: 'Most failed', rate: 'Fastest', oldest: 'Longest wait' })
      .map(([value, text]) => h('option', { value, selected: value === sort }, text)));
  const tiles = h('div', { class: 'tiles' });
  const charts = h('div', { class: 'charts' });
  let days = 0;
  const range = ranges((chosen) => {
    days = chosen;
    charts.className = days ? 'charts three' : 'charts';
    if (!days) { draw(); return; }
    const box = h('div', { class: 'contents' }, loading());
    replace(charts, box);
    past(box, days).catch(trouble);
  });
  const list = h('div', {});
  const drawn = new Map();
  let most = AT_ONCE;
  replace(root, h('h1', {}, 'Overview'), tiles, range, charts,
    h('div', { class: 'row spread' }, h('h2', {}, 'Queues'), h('div', { class: 'row' }, filter, choose)), list);

  function draw() {
    const text = filter.value.toLowerCase();
    const shown = reply.queues.filter((q) => `${q.product}/${q.name}`.toLowerCase().includes(text))
      .sort((a, b) => { const [x, y] = [SORTS[sort](a), SORTS[sort](b)]; return x < y ? -1 : x > y ? 1 : a.name < b.name ? -1 : 1; });
    drawTotals(reply.queues, tiles, days ? null : charts);
    const more = shown.length - most;
    replace(list, shown.length ? rows(shown.slice(0, most), drawn) : empty(reply.queues.length ? 'No queue has this name' : 'No queues yet', reply.queues.length ? '' : ['A queue appears here as soon as a job is added to it, by your program or in a shell:', h('br', {}), h('code', {}, 'waystation bullmq add mail send \'{"to": "ada"}\'')]),
      more > 0 && h('p', {}, button(`Show ${count(Math.min(more, AT_ONCE))} more of ${count(more)}`, () => { most += AT_ONCE; draw(); })),
      reply.left_out > 0 && h('p', { class: 'muted' }, `${plural(reply.left_out, 'more queue')} of this store ${reply.left_out === 1 ? 'is' : 'are'} not followed here: each opens by its address, and `, h('code', {}, 'waystation queues'), ' lists them all.'));
  }
  draw();
  follow('live', {
    sample: (samples) => {
      const known = new Map(reply.queues.map((q) => [`${q.product}/${q.name}`, q]));
      reply.queues = samples.map(([product, name, point, counts, paused, workers]) => {
        const points = [...(known.get(`${product}/${name}`)?.points || []), point].slice(-SHOWN);
        return { product, name, points, counts, paused, workers, ready: point[P.ready], oldest_s: point[P.oldest], completed_per_s: point[P.done], failed_per_s: point[P.wrong] };
      });
      if (!held(list)) draw();
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
  const last = (place) => summed(queues, place).at(-1) || 0;
  const times = queues.reduce((best, q) => (q.points.length > best.length ? q.points : best), []).map((point) => point[P.at]);
  const waits = Math.max(0, ...queues.map((q) => q.oldest_s));
  replace(tiles,
    tile('Ready', count(last(P.ready)), last(P.ready) ? `longest wait ${span(waits)}` : 'nothing waits'),
    tile('Active', count(last(P.active)), plural(queues.reduce((sum, q) => sum + (q.workers || 0), 0), 'BullMQ worker')),
    tile('Completed', `${rate(last(P.done))}/s`, `${rate(last(P.added))}/s added`),
    tile('Failed for good', count(last(P.failed)), `${rate(last(P.wrong))}/s now`));
  if (charts) replace(charts,
    panel('Depth', area([{ name: 'ready', values: summed(queues, P.ready), kind: 'calm' }, { name: 'active', values: summed(queues, P.active), kind: 'busy' }], times, 'Jobs that are ready and active in all queues', count),
      legend(['calm', 'ready'], ['busy', 'active'])),
    panel('Jobs per second', area([{ name: 'completed', values: summed(queues, P.done), kind: 'good' }, { name: 'failed', values: summed(queues, P.wrong), kind: 'bad' }], times, 'Jobs completed and failed per second in all queues', rate),
      legend(['good', 'completed'], ['bad', 'failed'])));
}

const HEAD = [['Queue', ''], ['Ready', 'number'], ['Active', 'number'], ['Delayed', 'number'], ['Failed', 'number'], ['Longest wait', 'number'], ['Per second', 'number'], ['Depth, last minutes', 'wide']];

function rows(queues, drawn) {
  return h('div', { class: 'scroll' }, h('table', { class: 'queues', 'aria-label': 'Queues' },
    h('thead', {}, h('tr', {}, HEAD.map(([name, kind]) => h('th', { scope: 'col', class: kind }, name)))),
    h('tbody', {}, queues.map((q) => row(q, drawn)))));
}

// A row is drawn anew only when something in it has changed: most of many queues stand still.
function row(q, drawn) {
  const key = `${q.product}/${q.name}`;
  const [bad, depths] = [failed(q), q.points.map((point) => point[P.ready])];
  const state = JSON.stringify([q.ready, q.counts, bad, q.ready && span(q.oldest_s), rate(q.completed_per_s), q.paused, depths]);
  const before = drawn.get(key);
  if (before?.state === state) return before.element;
  const cells = [
    [link(path('queues', q.product, q.name), { class: 'strong' }, q.name), ' ', h('span', { class: 'product' }, q.product), q.paused && chip('paused')],
    count(q.ready), count(q.counts.active || 0), count(q.counts.delayed || 0), h('span', { class: bad ? 'bad-text' : '' }, count(bad)),
    q.ready ? span(q.oldest_s) : '–', rate(q.completed_per_s), spark(depths, `Ready jobs of ${q.name}, now ${q.ready}`, { width: 150 }),
  ];
  const element = h('tr', {}, cells.map((cell, index) => h('td', { class: HEAD[index][1], 'data-name': HEAD[index][0] }, cell)));
  drawn.set(key, { state, element });
  return element;
}
