// Waiting rooms: who waits, who is inside, and the hand on the door.

import { h, replace } from '../dom.js';
import { every, get, post } from '../api.js';
import { count, plural, rate } from '../format.js';
import { button, chip, confirmed, empty, may, tile, toast, trouble } from '../parts.js';

export async function rooms(root, { signal }) {
  const list = h('div', { class: 'groups' });
  replace(root, h('h1', {}, 'Waiting rooms'), list);
  const doing = (room, action, title, more) => async () => {
    const asked = more?.() || {};
    const chosen = await confirmed({ title: `${title} · ${room.name}`, text: `${plural(room.waiting, 'visitor')} in line.`, action: title, danger: action === 'drain' });
    if (!chosen) return;
    try {
      await post(`rooms/${encodeURIComponent(room.name)}/actions/${action}`, { ...asked, reason: chosen.reason });
      toast(`${title}: done.`, 'good');
      await draw();
    } catch (error) { trouble(error); }
  };
  function card(room) {
    const field = h('input', { type: 'number', id: `rate-${room.name}`, min: 0, step: 'any', value: room.rate_per_min });
    return h('article', { class: 'panel' },
      h('h2', {}, room.title || room.name, ' ', chip(room.status, { active: 'good', paused: 'late', closed: 'bad' }[room.status]), room.fail_open && chip('open to all', 'bad')), h('p', { class: 'muted' }, `${room.name} · ${room.phase}`),
      h('div', { class: 'tiles' }, tile('Waiting', count(room.waiting), room.early ? `${count(room.early)} early` : `${count(room.lanes[0])} normal`), tile('Called', count(room.called), 'may come in'),
        tile('Inside', `${count(room.inside)}`, `of ${count(room.seats)} seats`), tile('Admitted', room.flow_per_min === null ? '–' : `${rate(room.flow_per_min)}/min`, `${rate(room.rate_per_min)}/min allowed`)),
      may('operator') && h('div', { class: 'row wrap' }, room.status === 'paused' ? button('Resume', doing(room, 'resume', 'Resume'), 'primary') : button('Pause', doing(room, 'pause', 'Pause')), button('Drain', doing(room, 'drain', 'Drain'), 'danger quiet'),
        h('label', { for: `rate-${room.name}` }, 'Per minute'), field, button('Change the rate', doing(room, 'rate', 'Change the rate', () => ({ rate_per_min: Number(field.value) })))));
  }
  async function draw() {
    const reply = await get('rooms');
    replace(list, reply.rooms.length ? reply.rooms.map(card) : empty('No waiting rooms', ['A room appears here once it is opened:', h('br', {}), h('code', {}, 'waystation room open tickets --rate 10 --seats 1000')]));
  }
  await draw();
  every(2, () => (list.contains(document.activeElement) ? null : draw()), signal);
}
