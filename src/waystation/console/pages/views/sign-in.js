// The sign-in: a key, or the identity provider.

import { h, replace } from '../dom.js';
import { post } from '../api.js';

export function signIn(root, ways, done, note = '') {
  const key = h('input', { id: 'key', type: 'password', autocomplete: 'current-password', required: true });
  const said = h('p', { class: 'bad-text', role: 'alert' });
  let asking = false;
  const submit = async (event) => {
    event.preventDefault();
    if (asking) return;
    asking = true;
    try {
      await post('admin/sign-in', { key: key.value });
      done();
    } catch (error) {
      replace(said, `${error.message[0].toUpperCase()}${error.message.slice(1)}.`);
    } finally { asking = false; }
  };
  replace(root, h('h1', {}, 'Sign in to waystation'), note && h('p', { role: 'status' }, note),
    h('form', { class: 'panel form', onsubmit: submit },
      h('label', { for: 'key' }, 'Key'), key, said,
      h('button', { type: 'submit', class: 'primary' }, 'Sign in')),
    ways.provider && h('p', {}, h('a', { class: 'button', href: '/sign-in/provider' }, `Sign in with ${ways.provider}`)),
    h('p', { class: 'muted' }, 'An admin makes keys with ', h('code', {}, 'waystation console key'), '.'));
  key.focus();
}
