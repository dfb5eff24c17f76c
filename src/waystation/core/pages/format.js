// Numbers, instants and stretches of time as people read them.

const whole = new Intl.NumberFormat('en');
const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

export const count = (value) => (value === null || value === undefined ? '–' : value < 100000 ? whole.format(value) : compact.format(value));

// Every single one, where one more or less matters.
export const exact = (value) => (value === null || value === undefined ? '–' : whole.format(value));

export function rate(value) {
  if (!value) return '0';
  if (value < 0.1) return '<0.1';
  return value >= 100 ? whole.format(Math.round(value)) : value >= 10 ? value.toFixed(0) : value.toFixed(1);
}

const two = (large, unit, small, smaller) => (small ? `${large} ${unit} ${small} ${smaller}` : `${large} ${unit}`);

export function span(seconds) {
  if (seconds === null || seconds === undefined) return '–';
  if (seconds < 1) return seconds <= 0 ? '0 s' : `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return two(Math.floor(seconds / 3600), 'h', Math.floor((seconds % 3600) / 60), 'min');
  return two(Math.floor(seconds / 86400), 'd', Math.floor((seconds % 86400) / 3600), 'h');
}

// The same to three digits in one unit, as reports say it.
export function precise(seconds) {
  if (seconds === null || seconds === undefined) return '–';
  const [unit, size] = [['d', 86400], ['h', 3600], ['min', 60], ['s', 1]].find(([, each]) => seconds >= each) || ['ms', 0.001];
  return seconds ? `${Number((seconds / size).toPrecision(3))} ${unit}` : '0';
}

export function ago(instant) {
  if (!instant) return '–';
  const seconds = (Date.now() - new Date(instant)) / 1000;
  return seconds >= 0 ? (seconds < 2 ? 'just now' : `${span(seconds)} ago`) : `in ${span(-seconds)}`;
}

const dated = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });
const timed = new Intl.DateTimeFormat('en-GB', { timeStyle: 'medium' });
const utc = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium', timeZone: 'UTC' });
export const local = (instant) => (instant ? dated.format(new Date(instant)) : '–');
export const inUtc = (instant) => (instant ? `${utc.format(new Date(instant))} UTC` : '–');

const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' });
const hour = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit', timeZone: 'UTC' });
export const date = (instant, alone) => (alone ? day : hour).format(new Date(instant));

export const clock = (instant) => timed.format(new Date(instant));

// The time of day, with the date unless it is today.
export function moment(instant) {
  const at = new Date(instant);
  return at.toDateString() === new Date().toDateString() ? clock(at) : dated.format(at);
}

export function bytes(value) {
  const units = ['B', 'KB', 'MB', 'GB', 'TB'];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) { value /= 1024; unit += 1; }
  return `${value >= 100 || unit === 0 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

export const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? '' : 's'}`;
