// The shell: navigation, search, theme, sign-in, and the view that the address names.

import { h, link, replace } from './dom.js';
import { forgetLive, get, remove } from './api.js';
import { button, loading, session, toast, trouble } from './parts.js';
import { overview } from './views/overview.js';
import { queue } from './views/queue.js';
import { job } from './views/job.js';
import { failures } from './views/failures.js';
import { search } from './views/search.js';
import { schedulers, workers, routing } from './views/lists.js';
import { rooms } from './views/rooms.js';
import { store, audit } from './views/store.js';
import { webhooks } from './views/webhooks.js';
import { ledger, pipeline } from './views/history.js';
import { watchRuns } from './runs.js';
import { signIn } from './views/sign-in.js';

const VIEWS = [
  ['overview', 'Overview', overview], ['failures', 'Failures', failures], ['search', 'Search', search],
  ['schedulers', 'Schedulers', schedulers], ['workers', 'Workers', workers], ['routing', 'Routing', routing],
  ['rooms', 'Rooms', rooms], ['ledger', 'Ledger', ledger], ['pipeline', 'Pipeline', pipeline], ['store', 'Store', store], ['webhooks', 'Webhooks', webhooks], ['audit', 'Audit', audit],
];
let leaving = new AbortController();
// How long until what was not answered is tried again.
const AGAIN = 5000;

function theme(next) {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  if (next) root.dataset.theme = dark ? 'light' : 'dark';
  try {
    if (next) localStorage.setItem('theme', root.dataset.theme);
    else if (localStorage.getItem('theme')) root.dataset.theme = localStorage.getItem('theme');
  } catch { /* nothing may be kept here, so it is asked for again */ }
}

function shell() {
  const items = VIEWS.filter(([name]) => !['audit', 'webhooks'].includes(name) || session.role !== 'viewer');
  const field = h('input', { id: 'find', type: 'search', name: 'q', placeholder: 'Find jobs: id, state:failed, data.tenant:acme', autocomplete: 'off', 'aria-label': 'Find jobs' });
  const navigation = h('nav', { id: 'navigation', 'aria-label': 'Views' }, h('ul', {}, items.map(([name, title]) =>
    h('li', {}, link(`/${name}`, { 'data-view': name }, title)))));
  const menu = h('button', { type: 'button', class: 'menu', 'aria-expanded': 'false', 'aria-controls': 'navigation',
    onclick: () => open(!document.body.classList.contains('open')) }, 'Menu');
  return [
    h('a', { class: 'skip', href: '#main', onclick: (event) => { event.preventDefault(); document.getElementById('main').focus(); } }, 'Skip to the content'),
    h('header', { class: 'top' },
      link('/overview', { class: 'brand' }, h('img', { src: '/assets/mark.svg', alt: '', width: 26, height: 26 }), 'waystation'), menu,
      h('form', { role: 'search', onsubmit: (event) => { event.preventDefault(); location.hash = `/search?q=${encodeURIComponent(field.value)}`; } }, field),
      h('div', { class: 'who' }, h('span', { class: 'live', title: 'Green while what you see is live' }), h('span', { class: 'name', title: session.role === 'viewer' && !session.signIn ? 'Started with --role operator, the console lets you act' : '' }, `${session.name} · ${session.role}`),
        h('button', { type: 'button', class: 'quiet', onclick: () => theme(true) }, 'Theme'),
        session.signIn && h('button', { type: 'button', class: 'quiet', onclick: signOut }, 'Sign out')),
      h('p', { id: 'away', role: 'status' })),
    navigation,
    h('div', { class: 'content' }, h('div', { id: 'runs', role: 'region', 'aria-label': 'Under way' }), h('main', { id: 'main', tabindex: '-1' })),
    h('div', { id: 'toasts', role: 'status', 'aria-live': 'polite' }),
  ];
}

function open(wanted) {
  document.body.classList.toggle('open', wanted);
  document.querySelector('.menu')?.setAttribute('aria-expanded', String(wanted));
}

async function signOut() {
  await remove('admin/sign-in').catch(trouble);
  location.reload();
}

async function show() {
  const [place, query = ''] = (location.hash.slice(1) || '/overview').split('?');
  const parts = place.split('/').slice(1).map(decodeURIComponent);
  const main = document.getElementById('main');
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  open(false);
  forgetLive();
  const named = VIEWS.find(([name]) => name === parts[0]);
  const view = parts[0] === 'queues' ? (parts.length > 3 ? job : queue) : named ? named[2] : overview;
  for (const each of document.querySelectorAll('nav [data-view]')) {
    const current = each.dataset.view === (parts[0] === 'queues' ? 'overview' : parts[0] || 'overview');
    if (current) each.setAttribute('aria-current', 'page'); else each.removeAttribute('aria-current');
  }
  const root = h('div', { class: 'view', 'data-place': location.hash.slice(1), 'data-view-name': parts[0] === 'queues' ? (parts.length > 3 ? 'job' : 'queue') : parts[0] || 'overview' }, loading());
  replace(main, root);
  try {
    await view(root, { parts: parts.slice(1), query: new URLSearchParams(query), signal });
  } catch (error) {
    if (signal.aborted || error.status === 401) return;
    broken(root, error, signal);
  }
  // Whoever has gone on meanwhile looks at something else.
  if (signal.aborted) return;
  const title = root.querySelector('h1');
  document.title = `${title ? title.textContent : 'waystation'} · waystation`;
  root.setAttribute('data-ready', '');
}

const NOT_ANSWERED = [0, 502, 503, 504];

// What is shown instead of a view; what may be over in a moment is tried again.
function broken(root, error, signal) {
  const away = NOT_ANSWERED.includes(error.status);
  replace(root, h('h1', {}, { 404: 'Not there', 403: 'Not allowed' }[error.status] || (away ? 'No answer' : 'That did not work')),
    h('p', {}, `${error.message[0].toUpperCase()}${error.message.slice(1)}.`, away && ' It is tried again every few seconds.'),
    h('p', { class: 'row' }, away && button('Try now', show, 'primary'), link('/overview', { class: 'button' }, 'To the overview')));
  if (away) setTimeout(() => { if (!signal.aborted) show(); }, AGAIN);
}

async function start(note = '') {
  theme(false);
  const app = document.getElementById('app');
  try {
    const ways = await get('sign-in');
    session.signIn = ways.sign_in;
    try {
      Object.assign(session, await get('session'));
    } catch (error) {
      if (error.status !== 401) throw error;
      replace(app, h('main', { id: 'main', class: 'alone', tabindex: '-1' }), h('div', { id: 'toasts', role: 'status' }));
      document.title = 'Sign in · waystation';
      signIn(document.getElementById('main'), ways, () => start(), note);
      return;
    }
  } catch (error) {
    replace(app, h('main', { id: 'main', class: 'alone' }, h('h1', {}, 'No answer'), h('p', {}, `${error.message[0].toUpperCase()}${error.message.slice(1)}. It is tried again every few seconds.`)));
    setTimeout(start, AGAIN, note);
    return;
  }
  replace(app, ...shell());
  watchRuns();
  await show();
}

addEventListener('hashchange', () => {
  if (!document.querySelector('nav')) return;
  scrollTo(0, 0);
  // What was asked belongs to the view that is left.
  for (const box of document.querySelectorAll('dialog')) box.close();
  // The link that led here is gone; who uses the keyboard or a screen reader goes on in the view.
  document.getElementById('main').focus({ preventScroll: true });
  show();
});
addEventListener('signed-out', () => {
  const navigation = document.querySelector('nav');
  if (!navigation) return;
  navigation.remove();
  leaving.abort();
  forgetLive();
  for (const box of document.querySelectorAll('dialog')) box.close();
  start('Your session has ended. Sign in to go on where you were.');
});
addEventListener('unhandledrejection', (event) => { if (document.getElementById('toasts')) toast(event.reason?.message || 'Something went wrong', 'bad'); });
addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && document.body.classList.contains('open')) { open(false); document.querySelector('.menu').focus(); }
  if (event.key !== '/' || event.ctrlKey || event.metaKey || /INPUT|TEXTAREA|SELECT/.test(document.activeElement?.tagName)) return;
  event.preventDefault();
  document.getElementById('find')?.focus();
});
start();
