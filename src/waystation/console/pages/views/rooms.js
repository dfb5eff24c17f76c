// Waiting rooms: who waits, who is inside, and the hand on the door.

import { h, replace } from '../dom.js';
import { every, get, post } from '../api.js';
import { count, plural, rate } from '../format.js';
import { button, chip, confirmed, empty, loading, may, tile, toast, trouble } from '../parts.js';

const EFFECTS = {
  pause: () => 'Nobody is admitted until it is resumed; everybody keeps their place.',
  resume: () => 'It admits visitors again, and new ones may join.',
  drain: () => 'Those in line are admitted, and nobody else may join.',
  rate: (asked) => `At most ${rate(asked.rate_per_min)} visitors a minute are admitted from now on.`,
};

export async function rooms(root, { signal }) {
  const list = h('div', { class: 'groups' }, loading());
  replace(root, h('h1', {}, 'Waiting rooms'), list);
  const doing = (room, action, title, more) => async () => {
    const asked = more ? more() : {};
    if (!asked) return;
    const chosen = await confirmed({ title: `${title} · ${room.title || room.name}`, text: `${EFFECTS[action](asked)} ${plural(room.waiting, 'visitor')} in line.`, action: title, danger: action === 'drain' });
    if (!chosen) return;
    try {
      await post(`rooms/${encodeURIComponent(room.name)}/actions/${action}`, { ...asked, reason: chosen.reason });
      toast(`${title}: done.`, 'good');
      await draw();
    } catch (error) { trouble(error); }
  };
  function card(room) {
    const field = h('input', { type: 'number', id: `rate-${room.name}`, min: 0, step: 'any', required: true, value: room.rate_per_min });
    // An empty field is no number, and must not become a room that admits nobody.
    const wanted = () => (field.reportValidity() ? { rate_per_min: Number(field.value) } : null);
    return h('article', { class: 'panel' },
      h('h2', {}, room.title || room.name, ' ', chip(room.status, { active: 'good', paused: 'late', draining: 'late', maintenance: 'late', closed: 'bad' }[room.status]), room.fail_open && [' ', chip('open to all', 'bad')], !room.served && [' ', chip('not served', 'bad')]), h('p', { class: 'muted' }, `${room.title ? `${room.name} · ` : ''}${room.phase}`),
      !room.served && room.waiting > 0 && h('p', { class: 'why bad' }, 'No process lets people in; ', h('code', {}, 'waystation room serve'), ' does.'),
      h('div', { class: 'tiles' }, tile('Waiting', count(room.waiting), room.early ? `${count(room.early)} early` : `${count(room.lanes[0])} normal`), tile('Called', count(room.called), 'may come in'),
        tile('Inside', `${count(room.inside)}`, `of ${plural(room.seats, 'seat')}`), tile('Admitted', room.flow_per_min === null ? '–' : `${rate(room.flow_per_min)}/min`, `${rate(room.rate_per_min)}/min allowed`)),
      may('operator') && h('div', { class: 'row wrap' }, room.status !== 'active' && button('Resume', doing(room, 'resume', 'Resume'), 'primary'), room.status !== 'paused' && button('Pause', doing(room, 'pause', 'Pause')), room.status !== 'draining' && button('Drain', doing(room, 'drain', 'Drain'), 'danger quiet'),
        h('div', { class: 'row rate' }, h('label', { for: `rate-${room.name}` }, 'Per minute'), field, button('Change the rate', doing(room, 'rate', 'Change the rate', wanted)))));
  }
  async function draw() {
    const reply = await get('rooms');
    replace(list, reply.rooms.length ? reply.rooms.map(card) : empty('No waiting rooms', ['A room appears here once it is opened:', h('br', {}), h('code', {}, 'waystation room open tickets --rate 10 --seats 1000')]));
  }
  await draw();
  every(2, draw, signal, list);
}
