// One job: why it is where it is, its data, attempts, log, timeline and flow.

import { h, link, path, replace, s } from '../dom.js';
import { every, get, post, queuePlace } from '../api.js';
import { moment, span } from '../format.js';
import { asked, button, chip, cut, facts, panel, spelled, time, toast, tree, trouble } from '../parts.js';
import { act } from './queue.js';

export async function job(root, { parts, signal }) {
  const [product, name, id] = parts;
  const place = (rest = '') => queuePlace(product, name, `/jobs/${encodeURIComponent(id)}${rest}`);
  let known = '';

  async function draw() {
    let reply;
    try { reply = await get(place()); } catch (error) {
      if (error.status === 404 && await remembered(root, product, name, id)) return;
      throw error;
    }
    const text = JSON.stringify(reply);
    if (text === known) return;
    known = text;
    const [why, flow] = [h('div', {}), h('div', {})];
    const edit = async () => {
      exact(reply.data);
      const done = await asked({
        title: `Edit the data · ${name} ${id}`, action: 'Save', text: 'It runs with this data when it starts, or is retried. Who changed it, and what it was, goes into the audit log.',
        fields: [{ id: 'data', label: 'Data, as JSON', kind: 'json', value: JSON.stringify(reply.data, null, 2) }, { id: 'reason', label: 'Why, for the audit log' }],
        save: async (values) => post(queuePlace(product, name, '/actions/edit'), { ids: [id], ...values, data: exact(values.data) }),
      });
      if (!done) return;
      if (done.affected) toast('The data was changed.', 'good');
      else toast('It had started meanwhile: this attempt runs with the data that was there before.', 'bad');
      known = '';
      await draw();
    };
    const clone = async () => {
      exact(reply.data);
      const made = await asked({
        title: `Clone · ${name} ${id}`, action: 'Add', text: 'Another job with the same options; it has no delay, and an id of its own.',
        fields: [{ id: 'name', label: 'Name', required: true, value: reply.job.name }, { id: 'data', label: 'Data, as JSON', kind: 'json', value: JSON.stringify(reply.data, null, 2) }],
        save: async (values) => post(queuePlace(product, name, '/actions/clone'), { ids: [id], ...values, data: exact(values.data) }),
      });
      if (made) toast('Another job like it was added.', 'good');
    };
    const forms = { edit, clone };
    const doing = (action) => forms[action] ? () => forms[action]().catch(trouble) : async () => {
      try { if (await act(product, name, action, { ids: [id] })) { known = ''; await draw(); } } catch (error) { if (error.status === 404) location.hash = path('queues', product, name); else trouble(error); }
    };
    replace(root,
      h('p', { class: 'crumbs' }, link('/overview', {}, 'Overview'), ' / ', product, ' / ', link(path('queues', product, name), {}, name)),
      h('h1', {}, reply.job.name || reply.job.id, ' ', chip(reply.job.state)), h('p', { class: 'muted id' }, reply.job.id), why,
      reply.actions.length ? h('div', { class: 'row wrap' }, ORDER.filter((each) => reply.actions.includes(each)).map((each) => button(each === 'edit' ? 'Edit the data' : each[0].toUpperCase() + each.slice(1), doing(each), STYLES[each]))) : null,
      h('div', { class: 'halves' },
        h('div', {},
          panel('Data', tree(reply.data)),
          reply.result !== null && panel('Result', tree(reply.result)),
          reply.traces.length > 0 && panel(reply.traces.length > 1 ? 'Tracebacks' : 'Traceback', reply.traces.map((trace, index) =>
            h('details', { open: index === reply.traces.length - 1 }, h('summary', { class: 'small' }, `Attempt ${index + 1}`), h('pre', { tabindex: '0' }, cut(trace)))).reverse()),
          reply.logs.length > 0 && panel(`Log${reply.logs_total > reply.logs.length ? `, ${reply.logs.length} of ${reply.logs_total} lines` : ''}`, h('pre', { tabindex: '0' }, cut(reply.logs.join('\n'))))),
        h('div', {},
          panel('Timeline', timeline(reply)), flow,
          panel('Facts', facts([
            ['Attempts', `${reply.job.attempts} of ${reply.job.max_attempts}`], ['Worker', reply.job.worker], ['Priority', reply.job.priority || null],
            ['Added', time(reply.job.created_at)], ['Due', reply.job.due_at && time(reply.job.due_at)], ['Ran for', ran(reply.job)],
            ['Parent', reply.parent && link(path('queues', reply.parent.product, reply.parent.queue, reply.parent.id), {}, `${reply.parent.queue} ${reply.parent.id}`)],
            ...Object.entries(reply.children).map(([kind, number]) => [`Children ${kind}`, number]),
            ...Object.entries(reply.facts).map(([key, value]) => [key[0].toUpperCase() + key.slice(1), typeof value === 'string' ? value : JSON.stringify(value)]),
          ]), reply.options && h('details', {}, h('summary', { class: 'small' }, 'Options'), tree(reply.options))))));
    get(place('/why')).then((found) => replace(why, h('p', { class: `why ${reply.job.state === 'failed' || reply.job.state === 'dead' ? 'bad' : ''}` }, spelled(found.sentence)))).catch(() => {});
    if (Object.keys(reply.children).length) get(place('/flow')).then((found) => replace(flow, panel('Flow', graph(found, product)))).catch(() => {});
  }
  await draw();
  every(3, draw, signal, root);
}

// A job that is no longer in the store, as the history remembers it.
async function remembered(root, product, name, id) {
  // Of the other products the history's queue is the type or the priority, not the namespace.
  const asked = `id:"${id}" product:${product}${product === 'bullmq' ? ` queue:"${name}"` : ''}`;
  const reply = await get(`history/search?limit=1&q=${encodeURIComponent(asked)}`).catch(() => ({ jobs: [] }));
  const [past] = reply.jobs;
  if (!past) return false;
  let data = past.data;
  try { data = JSON.parse(past.data); } catch { /* only its beginning is kept, or it is no JSON */ }
  replace(root,
    h('p', { class: 'crumbs' }, link('/overview', {}, 'Overview'), ' / ', product, ' / ', link(path('queues', product, name), {}, name)),
    h('h1', {}, past.name || past.id, ' ', past.state && chip(past.state)), h('p', { class: 'muted id' }, past.id),
    h('p', { class: 'why' }, 'This job is no longer in the store; the history remembers it.'),
    h('div', { class: 'halves' },
      h('div', {}, panel('Data', past.data === null ? h('p', { class: 'muted' }, 'Its data was not kept.') : tree(data)), past.error && panel('Error', h('pre', { tabindex: '0' }, cut(past.error)))),
      panel('Facts', facts([['Attempts', past.attempts], ['Added', past.added_at && time(past.added_at)], ['Ended', past.ended_at && time(past.ended_at)]]))));
  return true;
}

const ran = (reply) => (reply.started_at && reply.finished_at ? span((new Date(reply.finished_at) - new Date(reply.started_at)) / 1000) : null);

function timeline(reply) {
  if (!reply.timeline.length) return h('p', { class: 'muted' }, 'Its events are no longer kept.');
  let before = null;
  return h('ol', { class: 'timeline' }, reply.timeline.map((each) => {
    const passed = before ? (new Date(each.at) - before) / 1000 : null;
    before = new Date(each.at);
    return h('li', { class: { failed: 'bad', dead: 'bad', completed: 'good', active: 'busy' }[each.what] || '' },
      h('span', { class: 'strong' }, each.what), ' ', passed !== null && h('span', { class: 'muted' }, `+${span(passed)}`),
      h('span', { class: 'muted when' }, moment(before)), each.note && h('p', { class: 'note' }, each.note));
  }));
}

// A flow as a graph: the parent at the left, what it waits for at the right.
function graph(flow, product) {
  const [wide, high, gap, bend] = [196, 46, 14, 32];
  const nodes = [];
  const lines = [];
  let line = 0;
  (function lay(node, depth) {
    const children = node.children.map((child) => lay(child, depth + 1));
    const y = children.length ? (children[0].y + children[children.length - 1].y) / 2 : line++ * (high + gap);
    const own = { node, x: depth * (wide + bend), y };
    nodes.push(own);
    for (const child of children) lines.push([own, child]);
    return own;
  })(flow, 0);
  const width = Math.max(...nodes.map((each) => each.x)) + wide;
  const height = Math.max(...nodes.map((each) => each.y)) + high;
  const kinds = { failed: 'bad', completed: 'good', active: 'busy' };
  return h('div', { class: 'scroll' }, s('svg', { class: 'flow', width: width + 2, height: height + 2, viewBox: `-1 -1 ${width + 2} ${height + 2}`, role: 'img' },
    s('title', {}, `The flow of ${flow.name}: ${nodes.length} jobs`),
    lines.map(([from, to]) => s('path', { class: 'edge', d: `M${from.x + wide},${from.y + high / 2} C${from.x + wide + bend / 2},${from.y + high / 2} ${to.x - bend / 2},${to.y + high / 2} ${to.x},${to.y + high / 2}` })),
    nodes.map(({ node, x, y }) => s('a', { href: `#${path('queues', product, node.queue, node.id)}` },
      s('title', {}, `${node.name}, ${node.queue}, ${node.state}`), s('rect', { class: `node ${kinds[node.state] || ''}`, x, y, width: wide, height: high, rx: 8 }),
      s('text', { x: x + 12, y: y + 19, class: 'strong' }, short(node.name, 21)), s('text', { x: x + 12, y: y + 36, class: 'tick' }, short(`${node.queue} · ${node.state}`, 28))))));
}

// A browser rounds long numbers; what it cannot give back as it was is not edited here.
function exact(value) {
  if (typeof value === 'number' && Math.abs(value) > Number.MAX_SAFE_INTEGER) throw new Error('A number in the data is too long for a browser; edit it with a program');
  if (value && typeof value === 'object') Object.values(value).forEach(exact);
  return value;
}

const ORDER = ['retry', 'promote', 'edit', 'clone', 'cancel', 'remove'];
const STYLES = { retry: 'primary', promote: 'primary', edit: '', cancel: 'danger quiet', remove: 'danger quiet' };
const short = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
