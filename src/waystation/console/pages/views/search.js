// Search over the jobs that are in the store.

import { h, link, path, replace } from '../dom.js';
import { get } from '../api.js';
import { count } from '../format.js';
import { chip, empty, table, time, trouble } from '../parts.js';

const EXAMPLES = ['state:failed error:timeout', 'data.tenant:acme', 'queue:mail name:send', 'id:42'];

export async function search(root, { query }) {
  const asked = query.get('q') || '';
  const field = h('input', { id: 'q', type: 'search', value: asked, autocomplete: 'off' });
  const found = h('div', { 'aria-live': 'polite' });
  const go = (event) => { event.preventDefault(); location.hash = `/search?q=${encodeURIComponent(field.value)}`; };
  replace(root, h('h1', {}, 'Search'),
    h('form', { class: 'row', onsubmit: go }, h('label', { for: 'q', class: 'unseen' }, 'Search for'), field, h('button', { type: 'submit', class: 'primary' }, 'Search')),
    h('p', { class: 'muted' }, 'For example ', EXAMPLES.map((each, index) => [index ? ', ' : '', link(`/search?q=${encodeURIComponent(each)}`, { class: 'small' }, h('code', {}, each))])), found);
  if (!asked.trim()) return;
  const past = h('div', { 'aria-live': 'polite' });
  root.append(past);
  const reply = await get(`search?q=${encodeURIComponent(asked)}`);
  const rows = reply.hits.map(({ product, queue, job }) => ({ cells: [
    [link(path('queues', product, queue, job.id), { class: 'strong' }, job.name || job.id), h('span', { class: 'product' }, job.id)], link(path('queues', product, queue), {}, queue), chip(job.state),
    job.error ? h('span', { class: 'bad-text' }, job.error) : h('code', {}, job.data), time(job.finished_at || job.started_at || job.created_at)] }));
  replace(found, h('p', { class: 'muted' }, `${count(reply.hits.length)} found among ${count(reply.looked_at)} jobs in ${Math.round(reply.took_ms)} ms${reply.complete ? '' : '; there are more that were not looked at'}.`),
    rows.length ? table('Found jobs', [{ name: 'Job' }, { name: 'Queue' }, { name: 'State' }, { name: 'Data', kind: 'data' }, { name: 'When' }], rows) : empty('Nothing found'));
  get(`history/search?q=${encodeURIComponent(asked)}`).then((known) => {
    if (!known.available) return;
    const lines = known.jobs.map((job) => ({ cells: [[link(path('queues', job.product, job.queue, job.id), { class: 'strong' }, job.name || job.id), h('span', { class: 'product' }, job.id)], job.queue, job.state ? chip(job.state) : '–',
      job.error ? h('span', { class: 'bad-text' }, job.error) : job.data === null ? 'not kept' : h('code', {}, job.data), time(job.ended_at || job.added_at)] }));
    replace(past, h('h2', {}, 'In the history'), h('p', { class: 'muted' }, `${count(known.jobs.length)} found in ${Math.round(known.took_ms)} ms, the newest first.`),
      lines.length ? table('Past jobs', [{ name: 'Job' }, { name: 'Queue' }, { name: 'Ended as' }, { name: 'Data', kind: 'data' }, { name: 'When' }], lines) : empty('Nothing found in the history'));
  }).catch(trouble);
}
