// Charts as SVG: a spark line for a row, an area with a scale for a panel, bars for a trend.

import { h, s } from './dom.js';
import { clock, date, inUtc, local, precise, span } from './format.js';

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
const SPANS = [0.002, 0.004, 0.01, 0.02, 0.04, 0.1, 0.2, 0.4, 1, 2, 4, 10, 20, 40, 60, 120, 240, 600, 1200, 3600, 7200, 14400, 43200, 86400, 172800, 604800, 1209600, 2592000];

// What stands on a scale of times of which one is more than a hundred times another.
const TENFOLD = [0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 36000, 86400, 864000, 8640000];

// From one named instant to the next.
const STEPS = [60, 600, 1800, 3600, 10800, 21600, 43200, 86400, 172800, 345600, 604800, 1209600, 2592000];

// Seconds that a live chart shows at least.
const SHORTEST = 30;

// The top of a scale: round, and even, so that half of a number of jobs is a number of jobs.
function nice(top) {
  const power = 10 ** Math.floor(Math.log10(top));
  return [1, 2, 4, 6, 8, 10].map((each) => each * power).find((each) => each >= top && (each > 1 || power > 1)) || top;
}

// The values marked on an axis, and how high any value stands, from 0 to 1.
function scale(values, least, label) {
  const [most, lowest] = [Math.max(least, reach(values)), Math.min(...values.filter((each) => each > 0))];
  if (label === precise && most > 100 * lowest) {
    const marks = TENFOLD.slice(Math.max(0, TENFOLD.findLastIndex((each) => each <= lowest)), (TENFOLD.findIndex((each) => each >= most) + 1) || undefined);
    const [low, high] = [Math.log(marks[0]), Math.log(marks.at(-1))];
    return [marks, (value) => (Math.log(Math.max(value, marks[0])) - low) / (high - low)];
  }
  const top = ([span, precise].includes(label) && SPANS.find((each) => each >= most)) || nice(most);
  return [[0, top / 2, top], (value) => value / top];
}

// The stretches between holes, each as the indices of its values.
function runs(values) {
  const found = [[]];
  values.forEach((value, index) => { if (value === null) found.push([]); else found.at(-1).push(index); });
  return found.filter((run) => run.length);
}

// The size it is shown in, so that the letters of a chart stay as large as all others.
function fitting(columns) {
  const shown = Math.min(innerWidth, 1440) - (innerWidth > 760 ? 290 : 62);
  return Math.round(shown / (innerWidth > 1100 ? columns : innerWidth > 760 ? 2 : 1)) - 50;
}

export const legend = (...keys) => h('p', { class: 'legend' }, keys.map(([kind, text]) => h('span', { class: `key ${kind}` }, text)));

// `series` is a list of { name, values, kind }; `times` are seconds since the epoch. A value that is null breaks its line.
// A chart goes on to now; one that is `dated` says days when it is pointed at, and one in `utc` along its axis, too.
export function area(series, times, title, label, { columns = 2, least = 2, dated = false, utc = false, wide = fitting(columns) } = {}) {
  const width = Math.max(290, wide);
  const [height, left, bottom] = [168, 56, 22];
  const [marks, share] = scale(series.flatMap((each) => each.values), least, label);
  const last = times[times.length - 1] || 1;
  // What has been seen for a moment only stands at the right, where now is.
  const first = Math.min(times[0] || 0, dated || utc ? Infinity : last - SHORTEST);
  const x = (time) => left + ((time - first) / Math.max(1, last - first)) * (width - left - 6);
  const y = (value) => 8 + (1 - share(value)) * (height - bottom - 8);
  const root = s('svg', { class: 'chart', viewBox: `0 0 ${width} ${height}`, role: 'img' }, s('title', {}, title));
  for (const mark of marks) {
    const level = y(mark);
    root.append(s('line', { class: 'grid', x1: left, x2: width - 6, y1: level, y2: level }),
      s('text', { class: 'tick', x: left - 6, y: level + 4, 'text-anchor': 'end' }, label(mark).replace(/\.0$/, '')));
  }
  const seconds = Math.round(last - first);
  const said = (place, text, anchor) => root.append(s('text', { class: 'tick', x: place, y: height - 5, 'text-anchor': anchor }, text));
  if (utc) {
    // A day needs less room than an hour of a day.
    const room = (step) => (step < 86400 ? 90 : 50);
    const step = STEPS.find((each) => (seconds / each) * room(each) < width - left) || seconds;
    for (let time = Math.ceil(first / step) * step; x(time) < width - room(step) / 2; time += step) said(x(time), date(time * 1000, step >= 86400), 'middle');
  } else {
    said(left, seconds > 1 ? `${span(seconds)} ago` : '', 'start');
    said(width - 6, 'now', 'end');
  }
  for (const each of series) {
    // A line of failures that says nothing would still look like an alarm, and hide the others.
    if (each.kind === 'bad' && !each.values.some(Boolean)) continue;
    for (const run of runs(each.values)) {
      const line = run.map((index) => `${x(times[index]).toFixed(1)},${y(each.values[index]).toFixed(1)}`);
      // What lies below a line means nothing where the scale does not begin with nothing.
      if (marks[0] === 0) root.append(s('polygon', { class: `area ${each.kind}`, points: [`${x(times[run[0]])},${y(0)}`, ...line, `${x(times[run.at(-1)])},${y(0)}`].join(' ') }));
      // Said twice, the last point shows even where it is the only one.
      root.append(s('polyline', { class: `line ${each.kind} ${run.length > 1 ? '' : 'lone'}`, points: [...line, line.at(-1)].join(' ') }));
    }
  }
  if (times.length > 1) readOut(root, series, times, label, { width, height, left, bottom, x, when: utc ? inUtc : dated ? local : clock });
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
    const lines = [when(times[nearest] * 1000), ...series.map((each) => `${each.name} ${label(each.values[nearest])}`)];
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
