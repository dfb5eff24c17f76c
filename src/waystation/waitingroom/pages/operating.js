'use strict';
// What the operator's pages share: asking the room, and signing in.
const admin = '/api/v1/admin';
const at = (id) => document.getElementById(id);
const number = new Intl.NumberFormat();
const made = (name, text) => { const element = document.createElement(name); element.textContent = text; return element; };
const on = (id, event, step) => at(id).addEventListener(event, (happened) => { happened.preventDefault(); step(); });
const minutes = (seconds) => seconds === null ? '–' : seconds < 60 ? '< 1 min' : `${number.format(Math.round(seconds / 60))} min`;
const share = (part, whole) => whole ? `${Math.round(100 * part / whole)} %` : '–';

const ask = async (method, path, content) => {
  const answer = await fetch(path, {
    method, cache: 'no-store', credentials: 'same-origin',
    headers: content === undefined ? {} : { 'content-type': 'application/json' },
    body: content === undefined ? undefined : JSON.stringify(content),
  });
  const reply = answer.status === 204 ? {} : await answer.json();
  if (!answer.ok) throw Object.assign(new Error(reply.detail || answer.statusText), { status: answer.status, code: reply.code });
  return reply;
};

// Begins with whoever is signed in or signs in; the answer ends that, for a sign-in that is over.
const signing = (begin, end) => {
  const enter = (who) => {
    at('login').hidden = true; at('board').hidden = at('me').hidden = false; at('trouble').textContent = '';
    at('name').textContent = `${who.name}, ${who.role}`;
    begin(who);
  };
  const leave = () => { end(); at('login').hidden = false; at('board').hidden = at('me').hidden = true; at('key').focus(); };
  const signIn = async () => {
    const key = at('key').value.trim();
    at('key').value = '';
    try {
      enter(await ask('POST', `${admin}/sign-in`, { key }));
    } catch (error) { at('trouble').textContent = error.message; }
  };
  on('login', 'submit', signIn);
  on('sign-out', 'click', async () => { await ask('DELETE', `${admin}/sign-in`); leave(); });
  ask('GET', `${admin}/sign-in`).then(enter).catch(() => at('key').focus());
  return leave;
};
