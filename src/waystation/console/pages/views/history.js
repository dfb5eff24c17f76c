// The history: charts that go back in time, the ledger, and the pipeline that keeps both.

import { h, link, path, replace } from '../dom.js';
import { every, get } from '../api.js';
import { area, legend } from '../charts.js';
import { count, exact, inUtc, span } from '../format.js';
import { chip, empty, loading, panel, spelled, table, tile, time } from '../parts.js';

const RANGES = [[0, 'Live'], [1, '24 hours'], [7, '7 days'], [30, '30 days'], [90, '90 days']];
const KEPT = 'Jobs are remembered here once `waystation pipeline run` keeps a history.';

// Buttons that choose between the live charts and the past; `chosen` is called with the number of days.
export function ranges(chosen) {
  let days = 0;
  const row = h('div', { class: 'tabs ranges', role: 'group', 'aria-label': 'Time' });
  const draw = () => replace(row, RANGES.map(([each, text]) => h('button', { type: 'button', 'aria-pressed': String(each === days), onclick: () => { days = each; draw(); chosen(days); } }, text)));
  draw();
  return row;
}

// Three charts of the past: jobs by the hour, how many were open, and how long they took.
export async function past(element, days, product = '', queue = '') {
  const reply = await get(`history/hours?days=${days}&product=${encodeURIComponent(product)}&queue=${encodeURIComponent(queue)}`);
  if (!reply.available) { replace(element, panel('', empty('No history', KEPT))); return; }
  const name = queue || 'all queues';
  const { hours } = reply;
  const times = hours.map((each) => new Date(each.at) / 1000);
  const of = (key) => hours.map((each) => each[key] || 0);
  const seconds = (key) => hours.map((each) => (each[key] || 0) / 1000);
  replace(element,
    panel('Jobs per hour', area([{ name: 'completed', values: of('completed'), kind: 'good' }, { name: 'failed', values: of('failed'), kind: 'bad' }, { name: 'added', values: of('added'), kind: 'calm' }], times, `Jobs of ${name} by the hour`, count, { columns: 3, dated: true }),
      legend(['good', 'completed'], ['bad', 'failed'], ['calm', 'added'])),
    panel('Open at the end of the hour', area([{ name: 'open', values: of('open'), kind: 'busy' }], times, `Jobs of ${name} that had not ended`, count, { columns: 3, dated: true }), legend(['busy', 'added and not ended'])),
    panel('Wait and run, 95 of 100', area([{ name: 'waited', values: seconds('wait_p95_ms'), kind: 'late' }, { name: 'ran', values: seconds('run_p95_ms'), kind: 'busy' }], times, `How long jobs of ${name} waited and ran`, span, { columns: 3, least: 1, dated: true }),
      legend(['late', 'waited at most'], ['busy', 'ran at most'])));
}

export async function ledger(root, { signal }) {
  const body = h('div', {}, loading());
  replace(root, h('h1', {}, 'Ledger'), h('p', { class: 'muted' }, 'What became of every job that the history has seen.'), body);
  async function draw() {
    const reply = await get('history/ledger');
    if (!reply.available || !reply.rows.length) { replace(body, empty('No ledger yet', KEPT)); return; }
    const sum = (key) => reply.rows.reduce((total, each) => total + (each[key] || 0), 0);
    const wrong = (value) => h('span', { class: value ? 'bad-text strong' : '' }, value === null ? '–' : exact(value));
    replace(body, h('div', { class: 'tiles' }, tile('Added', exact(sum('added')), 'jobs in all'), tile('Ended', exact(sum('ended')), `${exact(sum('removed'))} removed`),
      tile('Lost', exact(sum('lost')), sum('lost') ? 'see below' : 'none'), tile('Completed twice', exact(sum('twice')), sum('twice') ? 'see below' : 'none')),
    table('Ledger', [{ name: 'Queue' }, { name: 'Added', kind: 'number' }, { name: 'Ended', kind: 'number' }, { name: 'Removed', kind: 'number' }, { name: 'Open', kind: 'number' }, { name: 'Lost', kind: 'number' }, { name: 'Twice', kind: 'number' }, { name: 'Events missed', kind: 'number' }, { name: 'Verdict' }],
      reply.rows.map((each) => ({ kind: each.lost || each.twice ? 'alarm' : '', cells: [
        [link(path('queues', each.product, each.queue), { class: 'strong' }, each.queue), ' ', h('span', { class: 'product' }, each.product)], exact(each.added), exact(each.ended), exact(each.removed), exact(each.open),
        wrong(each.lost), wrong(each.twice), exact(each.missed), verdict(each)] }))));
  }
  await draw();
  every(15, draw, signal, body);
}

function verdict(each) {
  if (each.lost) return [chip('lost', 'bad'), ' ', h('span', { class: 'note' }, each.lost_ids.map((id, index) => [index ? ', ' : '', link(path('queues', each.product, each.queue, id), { class: 'small' }, id)]))];
  if (each.twice) return chip('completed twice', 'bad');
  if (each.missed) return [chip('events missed', 'late'), ' ', h('span', { class: 'note' }, 'the stream was trimmed before it was read')];
  return each.clean ? chip('clean', 'good') : chip('not looked at yet');
}

export async function pipeline(root, { signal }) {
  const body = h('div', {}, loading());
  replace(root, h('h1', {}, 'Pipeline'), h('p', { class: 'muted' }, 'What keeps the history: how far it is behind, and whether its tables agree.'), body);
  async function draw() {
    const reply = await get('history/pipeline');
    if (!reply.available) { replace(body, empty('No history', KEPT)); return; }
    const behind = reply.lags.reduce((total, each) => total + (each.events || 0), 0);
    const failed = reply.checks.filter((each) => each.wanted !== each.found);
    replace(body, h('div', { class: 'tiles' }, tile('Events stored', count(reply.events), 'in all'), tile('Behind', count(behind), 'events to be read'),
      tile('Last event', reply.last_at ? span(Math.max(0, (Date.now() - new Date(reply.last_at)) / 1000)) : '–', reply.last_at ? 'ago' : 'none yet'),
      tile('Checks', failed.length ? `${failed.length} failed` : reply.checks.length ? 'all agree' : '–', reply.checked_at ? ['last round ', time(reply.checked_at)] : 'no round yet')),
    failed.length > 0 && h('p', { class: 'why bad' }, spelled('Tables disagree. No event is lost: `waystation pipeline rebuild` builds them again from the events.')),
    panel('Behind, by queue', reply.lags.length ? table('Lag', [{ name: 'Queue' }, { name: 'Events to be read', kind: 'number' }], reply.lags.map((each) => ({ cells: [
      [link(path('queues', each.product, each.queue), { class: 'strong' }, each.queue), ' ', h('span', { class: 'product' }, each.product)], each.events === null ? 'not counted' : count(each.events)] }))) : empty('No streams', 'No queue has written an event yet.')),
    panel('Gaps', reply.gaps.length >= 50 && h('p', { class: 'muted' }, 'Only the latest 50 are shown.'), reply.gaps.length ? table('Gaps', [{ name: 'Queue' }, { name: 'Events', kind: 'number' }, { name: 'Why' }, { name: 'Between' }], reply.gaps.map((each) => ({ cells: [
      [h('span', { class: 'strong' }, each.queue), ' ', h('span', { class: 'product' }, each.product)], count(each.lost), each.reason, `${inUtc(each.after_at)} and ${inUtc(each.before_at)}`] }))) : empty('No gaps', 'Every event was read before it was trimmed.')),
    panel('Checks of the last round', reply.checks.length ? table('Checks', [{ name: 'Table' }, { name: 'Count of' }, { name: 'Expected', kind: 'number' }, { name: 'Found', kind: 'number' }, { name: 'Result' }], reply.checks.map((each) => ({ cells: [
      h('code', {}, each.table), each.what, count(each.wanted), count(each.found), each.wanted === each.found ? chip('ok', 'good') : chip('differs', 'bad')] }))) : empty('No round yet', 'Checks are made after each round of the pipeline.')));
  }
  await draw();
  every(15, draw, signal, body);
}
