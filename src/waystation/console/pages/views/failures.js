// Failures as groups, and redrives of a group: one job, a canary of five, or all.

import { h, link, path, replace } from '../dom.js';
import { every, get, post, queuePlace, remove } from '../api.js';
import { bars } from '../charts.js';
import { count, plural } from '../format.js';
import { button, chip, confirmed, empty, loading, may, time, toast, trouble } from '../parts.js';

const STATES = { running: 'busy', done: 'good', relapsed: 'bad', unseen: 'late', stopped: 'late', 'timed-out': 'late', broken: 'bad' };
const SAID = {
  relapsed: 'Jobs failed again, so the rest was left alone.', unseen: 'Nothing says how the jobs of a step ended, so the rest was left alone.', stopped: 'Somebody stopped it.',
  'timed-out': 'Jobs did not end in time; is a worker running?', running: '',
};
const said = (each) => SAID[each.state] ?? {
  done: each.gone ? `Completed but for ${plural(each.gone, 'job')}: removed, or not stored any more, and nothing says how it ended.` : 'All of them were completed.',
  broken: each.error || 'The store did not answer.',
}[each.state];

export async function failures(root, { signal }) {
  const [list, drives] = [h('div', { class: 'groups' }, loading()), h('div', {})];
  const filter = h('input', { type: 'search', id: 'filter', placeholder: 'Filter by queue, name or error', 'aria-label': 'Filter failures', oninput: () => show() });
  let reply = { groups: [], complete: true };
  replace(root, h('h1', {}, 'Failures'), h('p', { class: 'muted' }, 'Jobs that failed for good, grouped by what went wrong; the largest group comes first.'), drives, h('div', { class: 'row' }, filter), list);

  async function redrive(group, mode) {
    try {
      const place = queuePlace(group.product, group.queue, '/redrives');
      const asked = { group: group.id, mode };
      const counted = await post(place, { ...asked, dry_run: true });
      const chosen = await confirmed({
        title: `Retry ${{ one: 'one job', canary: 'a canary', all: 'all' }[mode]}`, action: 'Retry',
        text: `${plural(counted.affected, 'job')} of ${group.name} in ${group.queue} will run again.${mode === 'all' ? ' Five go first; when one fails again, the rest is left alone.' : ''}`,
      });
      if (!chosen) return;
      await post(place, { ...asked, expected: counted.affected, reason: chosen.reason });
      toast('The redrive has begun.', 'good');
      await draw();
    } catch (error) { trouble(error); }
  }

  function show() {
    const text = filter.value.toLowerCase();
    const shown = reply.groups.filter((each) => `${each.product}/${each.queue} ${each.name} ${each.error} ${each.message}`.toLowerCase().includes(text));
    replace(list, !reply.complete && h('p', { class: 'muted' }, `The newest ${count(reply.looked_at)} failures were looked at; there are more. A number with + is the least that there are.`),
      shown.length ? shown.map((group) => card(group, redrive)) : reply.groups.length ? empty('No failure is like this') : empty('Nothing has failed', 'Jobs that fail for good appear here.'));
  }

  async function draw() {
    const [found, running] = await Promise.all([get('failures'), get('redrives')]);
    reply = found;
    show();
    replace(drives, running.redrives.length > 0 && h('section', { class: 'panel', 'aria-label': 'Redrives' }, h('h2', {}, running.redrives.length > 5 ? `The latest 5 of ${count(running.redrives.length + running.forgotten)} redrives` : 'Redrives'), running.redrives.slice(0, 5).map((each) => progress(each, draw))));
  }
  await draw();
  every(2, draw, signal, root);
}

const isNew = (group) => group.is_complete && group.first_at && Date.now() - new Date(group.first_at) < 3600e3;

function card(group, redrive) {
  return h('article', { class: 'group panel' },
    h('div', { class: 'row spread top' },
      h('div', {}, h('h2', {}, group.error || 'Error', h('span', { class: 'number' }, ` × ${count(group.count)}${group.is_complete ? '' : '+'}`), isNew(group) && h('span', { class: 'chip bad' }, 'new')), h('p', { class: 'signature' }, group.signature || group.message)),
      h('figure', { class: 'trend' }, bars(group.trend, `${group.name}: failures in the last hour`), h('figcaption', { class: 'note' }, 'last hour'))),
    h('p', { class: 'muted' }, link(path('queues', group.product, group.queue), {}, group.queue), ` · ${group.name} · first ${group.is_complete ? '' : 'before '}`, time(group.first_at), ' · last ', time(group.last_at)),
    h('p', { class: 'examples' }, 'Latest: ', group.examples.map((id, index) => [index ? ', ' : '', link(path('queues', group.product, group.queue, id), { class: 'small' }, id)])),
    may('operator') && h('div', { class: 'row wrap' }, button('Retry one', () => redrive(group, 'one')), button('Canary of five', () => redrive(group, 'canary'), 'primary'), button('Retry all', () => redrive(group, 'all'))));
}

function progress(each, draw) {
  const part = each.total ? Math.round(((each.completed + each.failed + each.gone) / each.total) * 100) : 0;
  return h('div', { class: 'redrive' },
    h('div', { class: 'row spread wrap' }, h('span', {}, chip(each.state, STATES[each.state]), ` ${each.queue}: ${count(each.completed)} of ${count(each.total)} completed, ${count(each.failed)} failed again${each.gone ? `, ${count(each.gone)} removed or not stored any more` : ''}`),
      each.state === 'running' && may('operator') && button('Stop', () => remove(`redrives/${each.id}`).then(draw, trouble), 'quiet')),
    h('progress', { max: 100, value: part, 'aria-label': `Redrive of ${each.queue}`, 'aria-valuetext': `${part} % have ended` }),
    said(each) && h('p', { class: 'muted' }, `${said(each)} `, time(each.ended_at)));
}
