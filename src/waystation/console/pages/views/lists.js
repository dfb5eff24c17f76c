// Schedulers, workers, and the coverage of routing.

import { h, link, path, replace } from '../dom.js';
import { every, get, post, queuePlace } from '../api.js';
import { count, inUtc, local, span } from '../format.js';
import { asked, button, chip, confirmed, due, empty, loading, may, table, time, toast, trouble } from '../parts.js';

const EFFECTS = {
  'pause-scheduler': 'It makes no jobs until it is resumed; a job of it that is due already runs. A Node program that upserts it starts it again.',
  'resume-scheduler': 'It goes on with its next time; what was missed is left out.',
  'run-scheduler': 'A job of it is added now; its schedule stays as it is.',
  'remove-scheduler': 'It makes no more jobs; nothing brings it back.',
};

export async function schedulers(root, { signal }) {
  const list = h('div', {}, loading());
  replace(root, h('h1', {}, 'Schedulers'), h('p', { class: 'muted' }, 'What adds jobs again and again, and when it does so next.'), list);
  const doing = (each, action, title) => async () => {
    const chosen = await confirmed({ title: `${title} · ${each.id}`, text: `Scheduler of ${each.queue}. ${EFFECTS[action] || ''}`, action: title, danger: action === 'remove-scheduler' });
    if (!chosen) return;
    try {
      await post(queuePlace(each.product, each.queue, `/actions/${action}`), { scheduler: each.id, reason: chosen.reason });
      toast(`${title}: done.`, 'good');
      await draw();
    } catch (error) { trouble(error); }
  };
  const edit = (each) => async () => {
    const saved = await asked({
      title: `Edit · ${each.id}`, action: 'Save', text: `Scheduler of ${each.queue}. A pattern or an interval; its other limits and its jobs’ options stay.`,
      fields: [
        { id: 'pattern', label: 'Pattern: minute, hour, day of the month, month, day of the week', value: each.pattern || '', hint: '0 9 * * 1-5' },
        { id: 'tz', label: 'Time zone of the pattern', value: each.tz || '', hint: 'Europe/Vienna' },
        { id: 'every_s', label: 'Or every so many seconds', kind: 'number', value: each.every_s || '' },
        { id: 'name', label: 'Name of its jobs', value: each.name },
        { id: 'data', label: 'Data of its jobs, as JSON', kind: 'json', value: JSON.stringify(each.data ?? null, null, 2) }],
      save: (values) => post(queuePlace(each.product, each.queue, '/actions/set-scheduler'), { ...values, tz: values.pattern ? values.tz : '', scheduler: each.id }),
    });
    if (!saved) return;
    toast(`Scheduler ${each.id} was changed.`, 'good');
    await draw().catch(trouble);
  };
  async function draw() {
    const reply = await get('schedulers');
    const rows = reply.schedulers.map((each) => ({ cells: [
      [h('span', { class: 'strong' }, each.id), ' ', h('span', { class: 'product' }, each.name)], link(path('queues', each.product, each.queue), {}, each.queue),
      each.pattern ? [h('code', { class: 'pattern' }, each.pattern), each.tz && h('div', { class: 'note' }, each.tz)] : `every ${span(each.every_s)}`,
      each.paused_at ? [chip('paused'), h('div', { class: 'note' }, 'since ', time(each.paused_at), each.paused_by && ` by ${each.paused_by}`)]
        : [due(each.next_at), inUtc(each.next_at) !== `${local(each.next_at)} UTC` && h('div', { class: 'note' }, local(each.next_at)), h('div', { class: 'note' }, inUtc(each.next_at)), each.started_again && h('div', { class: 'note late-text' }, `${each.paused_by || 'Somebody'} paused it; a program in Node started it again`)],
      may('operator') ? h('div', { class: 'row' }, each.product === 'bullmq' && [each.paused_at ? button('Resume', doing(each, 'resume-scheduler', 'Resume')) : button('Pause', doing(each, 'pause-scheduler', 'Pause')),
        button('Run now', doing(each, 'run-scheduler', 'Run now')), button('Edit', edit(each))], button('Remove', doing(each, 'remove-scheduler', 'Remove'), 'danger quiet')) : ''] }));
    replace(list, rows.length ? table('Schedulers', [{ name: 'Scheduler', kind: 'whole' }, { name: 'Queue', kind: 'whole' }, { name: 'Schedule' }, { name: 'Next, here and in UTC' }, ...(may('operator') ? [{ name: 'Actions', kind: 'do' }] : [])], rows) : empty('No schedulers', 'Schedulers of BullMQ and cron jobs of routing appear here.'));
  }
  await draw();
  every(5, draw, signal, list);
}

export async function workers(root, { signal }) {
  const list = h('div', {}, loading());
  replace(root, h('h1', {}, 'Workers'), h('p', { class: 'muted' }, 'Who works on what.'), list);
  async function draw() {
    const reply = await get('workers');
    const rows = reply.workers.map((each) => ({ cells: [
      [h('span', { class: 'strong' }, each.name), ' ', h('span', { class: 'product' }, each.product)], each.alive ? chip('alive', 'good') : chip('silent', 'bad'),
      each.queues.length ? each.queues.map((name, index) => [index ? ', ' : '', each.product === 'bullmq' ? link(path('queues', each.product, name), {}, name) : name]) : 'all types', holding(each), each.seen_at ? time(each.seen_at) : each.facts.connected_s !== undefined ? `connected for ${span(each.facts.connected_s)}` : '–',
      offers(each.facts)] }));
    replace(list, rows.length ? table('Workers', [{ name: 'Worker' }, { name: 'State' }, { name: 'Works on' }, { name: 'Holds', kind: 'holds' }, { name: 'Last heard' }, { name: 'What and where it is', kind: 'data' }], rows) : empty('No workers', 'Nobody is connected; jobs wait until a worker starts.'));
  }
  await draw();
  every(4, draw, signal, list);
}

// The jobs by name, so that whoever looks for a slow one sees it; the rest as a number.
function holding(each) {
  if (each.active === null) return '–';
  const least = each.is_complete ? '' : 'at least ';
  if (!each.active) return h('span', { class: 'muted' }, each.is_complete ? 'nothing' : 'not known: too many jobs are active');
  const shown = each.holds.slice(0, 3).map((job) => h('li', {}, link(path('queues', each.product, job.queue, job.id), {}, job.name || job.id), ' ', h('span', { class: 'product' }, job.id, ' · ', time(job.started_at))));
  const more = each.active - shown.length;
  return [shown.length ? h('ul', { class: 'held' }, shown, more > 0 && h('li', { class: 'muted' }, `and ${least}${count(more)} more`)) : `${least}${count(each.active)}`,
    each.facts.alike && h('div', { class: 'note' }, `held by ${each.facts.alike} workers of this name together`)];
}

const offers = (known) => [known.stack, known.region, ...(known.capabilities || []), ...(known.patterns || []), known.host, known.address].filter(Boolean).join(' · ') || '–';

export async function routing(root, { signal }) {
  const list = h('div', {}, loading());
  replace(root, h('h1', {}, 'Routing'), h('p', { class: 'muted' }, 'Waiting jobs by what they ask for, and who could do them.'), list);
  async function draw() {
    const reply = await get('coverage');
    const rows = reply.covered.map((each) => ({ kind: each.workers ? '' : 'alarm', cells: [
      [h('span', { class: 'strong' }, each.type), ' ', h('span', { class: 'product' }, each.first)], count(each.waiting), each.workers ? count(each.workers) : chip('nobody', 'bad'),
      (each.reasons || []).map((reason) => h('p', { class: 'note' }, reason.text)), each.nearest ? `${each.nearest}: ${(each.missing || []).join('; ')}` : '–'] }));
    replace(list, rows.length ? table('Coverage', [{ name: 'Type' }, { name: 'Waiting', kind: 'number' }, { name: 'Workers that fit', kind: 'number' }, { name: 'What holds them back', kind: 'data' }, { name: 'Nearest worker, and what it lacks', kind: 'data' }], rows) : empty('Nothing waits', 'Jobs of routing that wait for a worker appear here, with what they ask for.'));
  }
  await draw();
  every(4, draw, signal, list);
}
