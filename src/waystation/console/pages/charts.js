// Charts as SVG: a spark line for a row, an area with a scale for a panel, bars for a trend.

import { s } from './dom.js';
import { clock, local, span } from './format.js';

const reach = (values) => Math.max(1e-9, ...values);

export function spark(values, title, { width = 96, height = 26, kind = '' } = {}) {
  // With room above, so that a queue that stands still does not look full.
  const top = reach(values) * 1.25;
  const step = width / Math.max(1, values.length - 1);
  const at = (value, index) => `${(index * step).toFixed(1)},${(height - 2 - (value / top) * (height - 5)).toFixed(1)}`;
  const line = values.map(at).join(' ');
  return s('svg', { class: `spark ${kind}${values.some(Boolean) ? '' : ' none'}`, viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', preserveAspectRatio: 'none' },
    s('title', {}, title),
    values.length > 1 && s('polygon', { class: 'area', points: `0,${height} ${line} ${width},${height}` }),
    values.length > 1 && s('polyline', { class: 'line', points: line }));
}

// The tops of scales of time, in seconds: half of each is said in one word.
const SPANS = [10, 60, 120, 600, 1200, 3600, 7200, 14400, 43200, 86400, 172800, 604800, 1209600, 2592000];

// Seconds that a live chart shows at least.
const SHORTEST = 30;

// The top of a scale: round, and even, so that half of a number of jobs is a number of jobs.
function nice(top) {
  const power = 10 ** Math.floor(Math.log10(top));
  return [1, 2, 4, 6, 8, 10].map((each) => each * power).find((each) => each >= top && (each > 1 || power > 1)) || top;
}

// `series` is a list of { name, values, kind }; `times` are seconds since the epoch.
export function area(series, times, title, label, { columns = 2, least = 2, dated = false } = {}) {
  // Drawn in the size it is shown in, so that its letters stay as large as all others.
  const shown = Math.min(innerWidth, 1440) - (innerWidth > 760 ? 290 : 62);
  const width = Math.max(290, Math.round(shown / (innerWidth > 1100 ? columns : innerWidth > 760 ? 2 : 1)) - 50);
  const [height, left, bottom] = [168, 56, 22];
  const most = Math.max(least, reach(series.flatMap((each) => each.values)));
  const top = (label === span && SPANS.find((each) => each >= most)) || nice(most);
  const last = times[times.length - 1] || 1;
  // What has been seen for a moment only stands at the right, where now is.
  const first = Math.min(times[0] || 0, dated ? Infinity : last - SHORTEST);
  const x = (time) => left + ((time - first) / Math.max(1, last - first)) * (width - left - 6);
  const y = (value) => 8 + (1 - value / top) * (height - bottom - 8);
  const root = s('svg', { class: 'chart', viewBox: `0 0 ${width} ${height}`, role: 'img' }, s('title', {}, title));
  for (const part of [0, 0.5, 1]) {
    const level = y(top * part);
    root.append(s('line', { class: 'grid', x1: left, x2: width - 6, y1: level, y2: level }),
      s('text', { class: 'tick', x: left - 6, y: level + 4, 'text-anchor': 'end' }, label(top * part).replace(/\.0$/, '')));
  }
  const seconds = Math.round(last - first);
  root.append(s('text', { class: 'tick', x: left, y: height - 5 }, seconds > 1 ? `${span(seconds)} ago` : ''),
    s('text', { class: 'tick', x: width - 6, y: height - 5, 'text-anchor': 'end' }, 'now'));
  for (const each of series) {
    // A line of failures that says nothing would still look like an alarm, and hide the others.
    if (each.values.length < 2 || (each.kind === 'bad' && !each.values.some(Boolean))) continue;
    const line = each.values.map((value, index) => `${x(times[index]).toFixed(1)},${y(value).toFixed(1)}`);
    root.append(s('polygon', { class: `area ${each.kind}`, points: [`${x(times[0])},${y(0)}`, ...line, `${x(last)},${y(0)}`].join(' ') }),
      s('polyline', { class: `line ${each.kind}`, points: line.join(' ') }));
  }
  if (times.length > 1) readOut(root, series, times, label, { width, height, left, bottom, x, when: dated ? local : clock });
  return root;
}

// What the lines say where the pointer is.
function readOut(root, series, times, label, { width, height, left, bottom, x, when }) {
  const rule = s('line', { class: 'rule', y1: 8, y2: height - bottom });
  const words = s('text', { class: 'read-out', y: 18 });
  const group = s('g', { class: 'reading', visibility: 'hidden' }, rule, words);
  root.append(group);
  root.addEventListener('pointermove', (event) => {
    const box = root.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * width;
    const nearest = times.reduce((best, time, index) => (Math.abs(x(time) - at) < Math.abs(x(times[best]) - at) ? index : best), 0);
    const place = x(times[nearest]);
    rule.setAttribute('x1', place);
    rule.setAttribute('x2', place);
    const right = place > (left + width) / 2;
    words.setAttribute('text-anchor', right ? 'end' : 'start');
    const lines = [when(times[nearest] * 1000), ...series.map((each) => `${each.name} ${label(each.values[nearest] ?? 0)}`)];
    words.replaceChildren(...lines.map((text, index) => s('tspan', { x: right ? place - 6 : place + 6, dy: index ? 15 : 0 }, text)));
    group.setAttribute('visibility', 'visible');
  });
  root.addEventListener('pointerleave', () => group.setAttribute('visibility', 'hidden'));
}

export function bars(values, title, { height = 36 } = {}) {
  const top = reach(values);
  const width = values.length * 7;
  return s('svg', { class: 'bars', viewBox: `0 0 ${width} ${height}`, width, height, role: 'img' },
    s('title', {}, title),
    values.map((value, index) => s('rect', {
      x: index * 7, width: 5, rx: 1,
      y: value ? height - Math.max(3, (value / top) * height) : height - 2,
      height: value ? Math.max(3, (value / top) * height) : 2,
      class: value ? 'some' : 'none',
    })));
}
