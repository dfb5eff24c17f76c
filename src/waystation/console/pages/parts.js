// Parts that several views share: chips, panels, tables, tiles, the tree of a value, toasts, dialogs.

import { append, h, replace } from './dom.js';
import { Problem } from './api.js';
import { ago, exact, local, inUtc } from './format.js';

export const session = { name: '', role: 'viewer', signIn: false };
export const may = (role) => ['viewer', 'operator', 'admin'].indexOf(session.role) >= ['viewer', 'operator', 'admin'].indexOf(role);

const KINDS = { failed: 'bad', dead: 'bad', completed: 'good', active: 'busy', delayed: 'late', paused: 'late', waiting: 'calm' };
export const chip = (text, kind) => h('span', { class: `chip ${kind || KINDS[text] || ''}` }, text);

// Why a queue stands where it stands, in a word, and how bad that is.
export const CAUSES = {
  failing: ['failing', 'bad'], nobody: ['no worker', 'bad'], 'no-handler': ['no handler', 'bad'], unmatched: ['no worker fits', 'bad'],
  broken: ['circuit open', 'late'], behind: ['falls behind', 'late'], paused: ['paused', 'late'],
};

// What stands between backticks is something to type.
export const spelled = (text) => text.split('`').map((part, index) => (index % 2 ? h('code', {}, part) : part));

export const time = (instant) => h('time', instant ? { datetime: instant, title: `${local(instant)} · ${inUtc(instant)}` } : {}, ago(instant));
// When something happens next; what should have happened already is due.
export const due = (instant) => [instant && new Date(instant) <= Date.now() && 'due ', time(instant)];

export const panel = (title, ...children) => h('section', { class: 'panel' }, title && h('h2', {}, title), ...children);
export const tile = (label, value, note, chart) => h('div', { class: 'tile' }, h('div', { class: 'label' }, label), h('div', { class: 'value' }, value), note && h('div', { class: 'note' }, note), chart);
export const empty = (title, text) => h('div', { class: 'empty' }, h('p', { class: 'strong' }, title), text && h('p', {}, typeof text === 'string' ? spelled(text) : text));

// A table whose rows become cards on a narrow screen: each cell carries the name of its column.
export function table(label, columns, rows) {
  return h('div', { class: 'scroll' }, h('table', { 'aria-label': label },
    h('thead', {}, h('tr', {}, columns.map((each) => h('th', { scope: 'col', class: each.kind }, each.head || each.name)))),
    h('tbody', {}, rows.map((row) => h('tr', { class: row.kind }, columns.map((each, index) =>
      h('td', { class: each.kind, 'data-name': each.name }, row.cells[index])))))));
}

export const facts = (pairs) => h('dl', { class: 'facts' }, pairs.filter(([, value]) => value !== null && value !== undefined && value !== '')
  .map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value))));

const LONGEST = 4000;

// A text, or its beginning with ways to see the rest: a browser cannot lay out megabytes.
export function cut(text) {
  if (text.length <= LONGEST) return text;
  const box = h('span', {}, text.slice(0, LONGEST), '… ');
  const file = () => h('a', { href: URL.createObjectURL(new Blob([text], { type: 'text/plain' })), download: 'value.txt' }).click();
  const all = text.length <= 50 * LONGEST && button(`Show all ${exact(text.length)} characters`, () => replace(box, text), 'quiet');
  return append(box, [all, ' ', button(`Download all ${exact(text.length)} characters`, file, 'quiet')]);
}

// A value as a tree that opens; long ones stay closed until somebody looks.
export function tree(value, name = null, depth = 0) {
  const label = name === null ? null : h('span', { class: 'key' }, name);
  if (value === null || typeof value !== 'object') {
    const kind = value === null ? 'null' : typeof value;
    return h('div', { class: 'leaf' }, label, h('span', { class: `literal ${kind}` }, kind === 'string' ? ['"', cut(value), '"'] : String(value)));
  }
  const list = Array.isArray(value);
  const entries = Object.entries(value);
  if (!entries.length) return h('div', { class: 'leaf' }, label, h('span', { class: 'literal' }, list ? '[]' : '{}'));
  const size = list ? `[${entries.length}]` : `{${entries.length}}`;
  const open = depth === 0 || (depth < 3 && entries.length <= 20);
  const branch = h('details', { class: 'branch', open }, h('summary', { class: 'small' }, label, h('span', { class: 'size' }, size)));
  let filled = false;
  const fill = () => {
    if (filled) return;
    filled = true;
    branch.append(...entries.slice(0, 500).map(([key, each]) => tree(each, key, depth + 1)));
    if (entries.length > 500) branch.append(h('div', { class: 'leaf muted' }, `and ${entries.length - 500} more`));
  };
  if (open) fill(); else branch.addEventListener('toggle', fill);
  return branch;
}

export function toast(text, kind = '') {
  const note = h('div', { class: `toast ${kind}` }, h('p', {}, text), h('button', { type: 'button', class: 'quiet', 'aria-label': 'Dismiss', onclick: () => note.remove() }, '×'));
  document.getElementById('toasts').append(note);
  // What went wrong takes longer to read than that all is well.
  setTimeout(() => note.remove(), kind === 'bad' ? 20000 : 8000);
}

const said = (error) => (error instanceof Problem ? `${error.message[0].toUpperCase()}${error.message.slice(1)}.` : String(error));
export const trouble = (error) => toast(said(error), 'bad');

// A button that waits for what it has begun: on a slow network a second click does nothing.
export function button(text, act, kind = '') {
  const made = h('button', { type: 'button', class: kind, onclick: async () => {
    if (made.hasAttribute('aria-busy')) return;
    made.setAttribute('aria-busy', 'true');
    try { await act(); } finally { made.removeAttribute('aria-busy'); }
  } }, text);
  return made;
}

// Ask before something is done: says what it concerns, takes a choice, a reason, and where nothing brings it back the name.
export function confirmed({ title, text, more, action, confirm, choices: offered, danger, plain }) {
  return new Promise((resolve) => {
    const reason = h('input', { id: 'reason', maxlength: 300, autocomplete: 'off' });
    const typed = confirm && h('input', { id: 'typed', autocomplete: 'off', required: true });
    const radio = ([value, says], index) => h('label', {}, h('input', { type: 'radio', name: 'choice', value, checked: index === 0 }), h('span', {}, says));
    const box = h('dialog', { 'aria-labelledby': 'dialog-title' }, h('form', { method: 'dialog' },
      h('h2', { id: 'dialog-title' }, title), h('p', {}, text), more,
      offered && h('fieldset', { class: 'choices one' }, h('legend', {}, 'How many'), offered.map(radio)),
      !plain && [h('label', { for: 'reason' }, 'Reason, for the audit log'), reason],
      confirm && [h('label', { for: 'typed' }, 'Type ', h('code', {}, confirm), ' to confirm'), typed],
      h('div', { class: 'row end' }, h('button', { type: 'button', onclick: () => box.close() }, 'Cancel'),
        h('button', { type: 'submit', class: danger ? 'danger' : 'primary' }, action))));
    let chosen = null;
    box.addEventListener('submit', (event) => {
      if (confirm && typed.value !== confirm) { event.preventDefault(); typed.setCustomValidity('This is not the name.'); typed.reportValidity(); typed.setCustomValidity(''); return; }
      chosen = { reason: reason.value, confirm: typed ? typed.value : '', choice: box.querySelector('[name="choice"]:checked')?.value };
    });
    box.addEventListener('close', () => { box.remove(); resolve(chosen); });
    document.body.append(box);
    box.showModal();
  });
}

const choices = ({ label, options, value }) => h('fieldset', { class: 'choices' }, h('legend', {}, label), options.map((each) =>
  h('label', {}, h('input', { type: 'checkbox', value: each, checked: value.includes(each) }), each)));

// Ask for values: `fields` are { id, label, value, kind, hint, required }; a field of the kind json is read before it is sent.
export function asked({ title, text, action, fields, save }) {
  return new Promise((resolve) => {
    const made = fields.map((each) => ({ ...each, input: each.kind === 'choices' ? choices(each) : h(each.kind === 'json' ? 'textarea' : 'input', {
      id: `field-${each.id}`, name: each.id, required: each.required, autocomplete: 'off', spellcheck: 'false', rows: 6,
      ...(each.kind === 'number' ? { type: 'number', min: 0, step: 'any' } : {}), ...(each.hint ? { placeholder: each.hint } : {}),
      ...(each.kind === 'json' ? {} : { value: each.value ?? '' }) }, each.kind === 'json' ? each.value ?? '' : null) }));
    const wrong = h('p', { class: 'bad-text', role: 'alert' });
    const box = h('dialog', { 'aria-labelledby': 'dialog-title' }, h('form', {},
      h('h2', { id: 'dialog-title' }, title), text && h('p', { class: 'muted' }, text),
      made.map((each) => (each.kind === 'choices' ? each.input : [h('label', { for: `field-${each.id}` }, each.label), each.input])), wrong,
      h('div', { class: 'row end' }, h('button', { type: 'button', onclick: () => box.close() }, 'Cancel'), h('button', { type: 'submit', class: 'primary' }, action))));
    let saved = null;
    let saving = false;
    box.querySelector('form').addEventListener('submit', async (event) => {
      event.preventDefault();
      if (saving) return;
      const values = {};
      for (const each of made) {
        if (each.kind === 'choices') { values[each.id] = [...each.input.querySelectorAll(':checked')].map((box) => box.value); continue; }
        const given = each.input.value.trim();
        if (each.kind === 'number') values[each.id] = Number(given) || 0;
        else if (each.kind !== 'json') values[each.id] = given;
        else {
          try { values[each.id] = given ? JSON.parse(given) : null; } catch (error) { replace(wrong, `${each.label.split(',')[0]} must be JSON: ${error.message}`); each.input.focus(); return; }
        }
      }
      saving = true;
      try { saved = await save(values); box.close(); } catch (error) { replace(wrong, said(error)); }
      saving = false;
    });
    box.addEventListener('close', () => { box.remove(); resolve(saved); });
    document.body.append(box);
    box.showModal();
  });
}

// Show something once: a secret that somebody has to keep.
export function shown({ title, text, secret }) {
  return new Promise((resolve) => {
    const field = h('input', { id: 'secret', readonly: true, value: secret, class: 'secret' });
    const copy = async () => { field.select(); try { await navigator.clipboard.writeText(secret); toast('Copied.', 'good'); } catch { toast('Copy it with the keyboard: it is selected.'); } };
    const box = h('dialog', { 'aria-labelledby': 'dialog-title' }, h('form', { method: 'dialog' }, h('h2', { id: 'dialog-title' }, title), h('p', {}, text), h('label', { for: 'secret' }, 'Secret'), field,
      h('div', { class: 'row end' }, button('Copy', copy), h('button', { type: 'submit', class: 'primary' }, 'I have kept it'))));
    box.addEventListener('close', () => { box.remove(); resolve(); });
    document.body.append(box);
    box.showModal();
  });
}

// Shown only when an answer takes long enough to be noticed.
export const loading = () => h('p', { class: 'muted loading', role: 'status' }, 'Loading…');
