// Webhooks: who hears what happens to jobs, how deliveries go, and making, trying and reviving them.

import { h, replace } from '../dom.js';
import { every, get, post, remove } from '../api.js';
import { count, plural } from '../format.js';
import { asked, button, chip, confirmed, due, empty, facts, may, panel, shown, time, toast, trouble } from '../parts.js';

const list = (text) => text.split(',').map((each) => each.trim()).filter(Boolean);

// The same failure again and again is one line.
function alike(failures) {
  const lines = [];
  for (const { at, error } of failures) {
    const last = lines[lines.length - 1];
    if (last && last.error === error) { last.times += 1; last.first = at; } else lines.push({ at, error, times: 1, first: at });
  }
  return lines;
}

export async function webhooks(root, { signal }) {
  const cards = h('div', { class: 'groups' });
  let reply = await get('webhooks');

  async function draw() {
    reply = await get('webhooks');
    replace(cards, reply.webhooks.length ? reply.webhooks.map(card) : empty('No webhooks', 'A webhook sends what happens to jobs to a URL of yours: signed, in order, and again until it is taken.'));
  }

  async function make() {
    const made = await asked({
      title: 'Add a webhook', action: 'Add', text: 'What happens from now on is sent there, as JSON over https.',
      fields: [
        { id: 'url', label: 'URL', required: true, hint: 'https://shop.example.com/jobs' },
        { id: 'events', label: 'Events', kind: 'choices', options: [...new Set([...reply.usual_events, ...reply.known_events])], value: reply.usual_events },
        { id: 'queues', label: 'Only these queues, separated by commas; all when empty', hint: 'bullmq/mail, routing/bridge' }],
      save: (values) => post('webhooks', { ...values, queues: list(values.queues) }),
    });
    if (!made) return;
    await draw();
    await shown({ title: 'Keep this secret', text: 'It signs every delivery, and is not shown again.', secret: made.secret });
  }

  const doing = (step, done) => async () => {
    try { const found = await step(); if (found === false) return; toast(...done(found)); await draw(); } catch (error) { trouble(error); }
  };

  function card(each) {
    const place = `webhooks/${encodeURIComponent(each.id)}`;
    const failing = each.failures > 0;
    const state = each.dead ? chip('given up', 'bad') : failing ? chip('retrying', 'late') : chip(each.delivered ? 'delivering' : 'ready', 'good');
    const test = doing(() => post(`${place}/test`), (tried) => (tried.taken ? ['The test event was taken.', 'good'] : [`The test event was not taken: ${tried.error}.`, 'bad']));
    const revive = doing(() => post(`${place}/resume`), () => ['It is tried again at once, from where it was.', 'good']);
    const drop = doing(async () => (await confirmed({ title: 'Remove this webhook', text: `${each.url} hears of nothing any more. How far it was delivered is forgotten.`, action: 'Remove', danger: true, plain: true }) ? remove(place) : false), () => ['The webhook was removed.', 'good']);
    return h('article', { class: 'panel group webhook' }, h('div', { class: 'row spread top' }, h('h2', { class: 'address' }, each.url), state),
      facts([['Events', each.events.join(', ')], ['Queues', each.queues.length ? each.queues.join(', ') : 'all'], ['Delivered', each.delivered ? [plural(each.delivered, 'event'), ', last ', time(each.delivered_at)] : 'nothing yet'],
        ['Failed in a row', failing ? count(each.failures) : null], ['Next try', each.next_try_at ? due(each.next_try_at) : null], ['Id', h('code', {}, each.id)]]),
      each.recent_failures.length > 0 && h('details', { open: failing }, h('summary', {}, failing ? 'Last failures' : 'Earlier failures'),
        h('ul', { class: 'failures' }, alike(each.recent_failures).map((one) => h('li', {}, h('span', { class: failing ? 'bad-text' : 'muted' }, one.error), one.times > 1 && ` × ${one.times}`, ' ', h('span', { class: 'muted' }, time(one.at), one.times > 1 && [', first ', time(one.first)]))))),
      may('admin') && h('div', { class: 'row wrap' }, button('Send a test event', test), failing && button(each.dead ? 'Revive' : 'Try now', revive, 'primary'), button('Remove', drop, 'danger quiet')));
  }

  replace(root, h('div', { class: 'row spread' }, h('h1', {}, 'Webhooks'), may('admin') && button('Add a webhook', () => make().catch(trouble), 'primary')),
    h('p', { class: 'muted' }, 'Who hears what happens to jobs, and how deliveries go. This console sends them while it runs; of several, one does.'), cards);
  await draw();
  every(4, draw, signal, cards);
}
