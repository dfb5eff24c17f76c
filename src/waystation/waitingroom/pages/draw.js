'use strict';
// The draw, held again from what was published, as waystation.waitingroom.operating.lottery holds it.
(() => {
  const { queue, lang, words } = JSON.parse(document.getElementById('facts').textContent);
  const at = (id) => document.getElementById(id);
  const number = new Intl.NumberFormat(lang);
  const text = new TextEncoder();
  const base = `/api/v1/queues/${queue}`;

  const bytes = (hex) => Uint8Array.from(hex.match(/../g) || [], (two) => parseInt(two, 16));
  const hex = (buffer) => Array.from(new Uint8Array(buffer), (each) => each.toString(16).padStart(2, '0')).join('');
  const digest = async (data) => hex(await crypto.subtle.digest('SHA-256', data));
  const ask = async (path) => {
    const answer = await fetch(base + path, { cache: 'no-store', credentials: 'omit' });
    if (!answer.ok) throw new Error(path);
    return answer.json();
  };

  const everybody = async (count) => {
    const ids = [];
    while (ids.length < count) {
      const page = (await ask(`/fairness/order?first=${ids.length}`)).ids;
      if (!page.length) break;
      ids.push(...page);
    }
    return ids;
  };

  // 44 bits of a keyed digest: few enough to be a number that JavaScript can hold.
  const scores = async (proof, ids) => {
    const raw = await crypto.subtle.digest('SHA-256', text.encode(`${proof.seed}|${proof.n}|${proof.beacon}`));
    const key = await crypto.subtle.importKey('raw', raw, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign']);
    const drawn = [];
    for (let from = 0; from < ids.length; from += 1000) {
      drawn.push(...await Promise.all(ids.slice(from, from + 1000).map(async (id) => {
        const mac = new DataView(await crypto.subtle.sign('HMAC', key, text.encode(id)));
        return [mac.getUint32(0) * 4096 + (mac.getUint32(4) >>> 20), id];
      })));
    }
    return drawn;
  };
  const listed = (ids) => digest(text.encode(ids.map((id) => `${id}\n`).join('')));

  const isRight = async (proof, ids) => {
    if (await digest(bytes(proof.seed)) !== proof.commit || ids.length !== proof.n) return false;
    if (proof.revealed && await digest(bytes(proof.beacon)) !== proof.witness) return false;
    if (proof.entrants && await listed([...ids].sort()) !== proof.entrants) return false;
    const drawn = (await scores(proof, ids)).sort((one, other) => one[0] - other[0] || (one[1] < other[1] ? -1 : 1));
    return drawn.every(([, id], place) => id === ids[place]) && await listed(ids) === proof.digest;
  };

  const draw = async () => {
    at('again').disabled = true;
    try {
      const proof = await ask('/fairness'), ids = await everybody(proof.n), right = await isRight(proof, ids);
      at('result').hidden = false;
      at('result').className = `notice ${right ? 'info' : 'warning'}`;
      at('result').textContent = right ? words.right.replace('{n}', number.format(ids.length)) : words.wrong;
      const known = await (await fetch(`/wait/${queue}/facts`, { credentials: 'same-origin', cache: 'no-store' })).json();
      const place = known.place ? ids.indexOf(known.place.position_id) : -1;
      at('own').hidden = place < 0;
      at('own').textContent = words.place.replace('{n}', number.format(place + 1));
    } catch {
      at('result').hidden = false;
      at('result').className = 'notice warning';
      at('result').textContent = words.away;
    }
    at('again').disabled = false;
  };

  at('again').hidden = at('none').hidden === false || !window.crypto || !crypto.subtle;
  at('again').addEventListener('click', draw);
})();
