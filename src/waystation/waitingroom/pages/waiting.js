'use strict';
(() => {
  const facts = JSON.parse(document.getElementById('facts').textContent);
  const words = facts.words;
  const base = `/api/v1/queues/${facts.queue}`;
  const at = (id) => document.getElementById(id);
  const say = (word, values = {}) => (words[word] || '').replace(/\{(\w+)\}/g, (_, name) => values[name] ?? '');
  // The form of a word that stands with a number.
  const plural = new Intl.PluralRules(facts.lang);
  const form = (word, count) => [`${word}.${plural.select(count)}`, `${word}.other`].find((each) => each in words) || word;
  // The page's language, as it is spoken where the visitor is.
  const locale = navigator.languages.find((each) => each.split('-')[0] === facts.lang) || facts.lang;
  const number = new Intl.NumberFormat(locale);
  const time = new Intl.DateTimeFormat(locale, { hour: '2-digit', minute: '2-digit' });
  const second = new Intl.DateTimeFormat(locale, { hour: '2-digit', minute: '2-digit', second: '2-digit' });

  const WAITS = ['waiting', 'returned', 'prequeued'];
  // Nobody has a place here yet, and the page asks for one again by itself.
  const AGAIN = ['new', 'captcha', 'crowded', 'cookies', 'full', 'maintenance', 'rejected'];

  // Of a room that has ended, and of a visit that has: nothing changes any more by looking again.
  const OVER = ['closed', 'sold_out'];
  const STILL = [...OVER, 'missed', 'gone', 'done', 'left', 'active', 'pass', 'invite'];
  const QUIET = [...OVER, 'done', 'left', 'maintenance', 'missed', 'rejected'];

  let body = { status: 'loading', estimated_wait: { known: false } };
  // The server's clock: nobody's countdown goes by a clock that is wrong.
  let skew = 0, site = '', ending = null;
  const now = () => Date.now() + skew;
  let refused = 0, shownAhead = Infinity, risenFrom = null, shownWait = null, milestone = Infinity, errors = 0;
  let due = Infinity, timer = 0, busy = false, lastLook = 0, beatDue = 0, live = null, phase = null, entering = false;

  const ask = async (method, path, content) => {
    const answer = await fetch(base + path, {
      method, credentials: 'same-origin', cache: 'no-store',
      headers: content === undefined ? {} : { 'content-type': 'application/json' },
      body: content === undefined ? undefined : JSON.stringify(content),
    });
    const reply = answer.status === 204 ? {} : await answer.json();
    return { status: answer.status, ok: answer.ok, reply, after: Number(answer.headers.get('retry-after')) || 0 };
  };

  // Work that a room may ask for before it gives a place away.
  const solve = async () => {
    const { status, reply } = await ask('GET', '/challenge');
    if (status !== 200) return {};
    if (reply.algorithm === 'captcha') return { captcha: await confirm(reply) };
    return { pow: `${reply.challenge}:${await proven(reply.challenge, reply.difficulty)}` };
  };
  const proven = (challenge, bits) => {
    try {
      const source = `onmessage = ({ data }) => postMessage((${prove})(...data));`;
      const worker = new Worker(URL.createObjectURL(new Blob([source], { type: 'text/javascript' })));
      return new Promise((done, failed) => { worker.onmessage = ({ data }) => { worker.terminate(); done(data); }; worker.onerror = failed; worker.postMessage([challenge, bits]); });
    } catch { return prove(challenge, bits); }
  };

  // The box of a provider that tells people from programs, which is loaded only where it is needed.
  const confirm = async ({ provider, challenge, script_url }) => {
    const name = { turnstile: 'turnstile', hcaptcha: 'hcaptcha', recaptcha: 'grecaptcha' }[provider];
    if (!window[name]) await new Promise((done, failed) => document.head.append(Object.assign(document.createElement('script'), { src: script_url, onload: done, onerror: failed })));
    if (name === 'grecaptcha') await new Promise((done) => window[name].ready(done));
    become('captcha');
    const box = at('captcha').appendChild(document.createElement('div'));
    return new Promise((done) => window[name].render(box, { sitekey: challenge, callback: done })).finally(() => at('captcha').replaceChildren());
  };

  // The shell is everybody's; who looks at it, and where they want to go, is asked for.
  const load = async () => {
    const answer = await fetch(`/wait/${facts.queue}/facts${location.search}`, { credentials: 'same-origin', cache: 'no-store' });
    // What is wrong with the link is said by a page of its own.
    if (answer.status === 400 || answer.status === 404) { location.replace(`${location.pathname}?plain=1&${location.search.slice(1)}`); return; }
    if (!answer.ok) throw new Error('facts');
    const known = await answer.json();
    skew = new Date(known.now) - Date.now();
    ending = known.ending || null;
    const target = new URL(known.target, location.href);
    site = target.host === location.host ? '' : `${target.origin}/`;
    facts.ticket = known.ticket || '';
    // After a step that went wrong nobody is sent on without a press.
    facts.stays = facts.stays || Boolean(known.trouble);
    for (const [name, value] of [['r', known.sealed], ['ticket', known.ticket]]) keep(name, value || '');
    body = known.place || { status: known.status, estimated_wait: { known: false }, message: known.message, recoverable_until: known.recoverable_until, rejoinable_until: known.rejoinable_until };
    if (known.place) { beatDue = Date.now() + body.heartbeat_after_ms; draw(); goIn(); schedule(1000); follow(); return; }
    // Whoever is new sees what comes of joining, not a button that presses itself.
    if (known.status !== 'new' || known.trouble) draw();
    if (known.trouble) complain(known.trouble);
    if (known.again_s) again(known.again_s);
    else if (AGAIN.includes(body.status)) await join();
  };

  // Browsers take the fragment of the address that sent them here along, and from a form onto where its answer leads.
  for (const form of document.forms) form.action += location.hash;

  // Forms and links carry on where the visitor wants to go.
  const keep = (name, value) => {
    for (const form of document.forms) {
      const field = form.elements[name] || form.appendChild(Object.assign(document.createElement('input'), { type: 'hidden', name }));
      field.value = value;
    }
    for (const link of document.querySelectorAll('nav a')) {
      const onward = new URL(link.href);
      onward.hash = location.hash;
      if (value) onward.searchParams.set(name, value);
      else onward.searchParams.delete(name);
      link.href = onward;
    }
  };

  const join = async () => {
    const wanted = { locale: facts.lang };
    if (facts.ticket) wanted.ticket = facts.ticket;
    const { ok, reply, after } = await ask('POST', '/enqueue', { ...wanted, ...await solve() });
    if (!ok) return refuse(reply.code, after);
    refused = 0;
    beatDue = Date.now() + reply.heartbeat_after_ms;
    show(reply);
    if (reply.status === 'pass') goIn();
    else { announce(`${say('head_waiting')}. ${sentence(reply)}`); schedule(reply.poll_after_ms); follow(); }
  };

  // No place is given; what that means, and when to ask again.
  const refuse = (code, after) => {
    // The answer may have brought the cookie that was missing, and a challenge can be solved anew.
    if (['VISITOR_KEY_REQUIRED', 'CHALLENGE_REQUIRED', 'CHALLENGE_USED'].includes(code) && refused++ < 1) return join();
    refused = 0;
    const word = { RATE_LIMITED: 'crowded', VISITOR_KEY_REQUIRED: 'cookies', QUEUE_FULL: 'full', CHALLENGE_REQUIRED: 'crowded', CHALLENGE_USED: 'crowded', MAINTENANCE_MODE: 'maintenance', REJECTED: 'rejected', ENDED: 'closed', SOLD_OUT: 'sold_out', DRAINING: 'closed', INVITE_REQUIRED: 'invite', INVALID_TOKEN: 'invite', WRONG_NETWORK: 'invite' }[code];
    if (!word) throw new Error(code);
    become(word);
    if (facts.ticket && word === 'invite') { facts.ticket = ''; complain('code_wrong'); }
    if (AGAIN.includes(word)) again(after || { cookies: 10, rejected: 60 }[word] || 30);
  };

  const become = (word, more = {}) => { body = { status: word, estimated_wait: { known: false }, ...more }; draw(); };
  const complain = (word) => { at('banner').hidden = false; at('banner').textContent = say(word); };

  // Those who were refused together do not come back together.
  const again = (seconds) => {
    const ms = seconds * 1000 * (1 + Math.random() * 0.2);
    body.again_at = now() + ms;
    draw();
    sleep(ms);
  };

  // The place is gone, or the room wants to be asked less often.
  const lose = (problem, after) => {
    if (problem.code === 'RATE_LIMITED') {
      body.poll_after_ms = Math.max(body.poll_after_ms || 0, after * 1000);
      beatDue = Math.max(beatDue, Date.now() + after * 1000);
      return;
    }
    const word = { TURN_MISSED: 'missed', PLACE_LOST: 'gone', INVALID_TOKEN: 'gone', TICKET_REQUIRED: 'gone', NOT_YOURS: 'gone', ENDED: 'closed', SOLD_OUT: 'sold_out' }[problem.code];
    if (!word) throw new Error(problem.code);
    ending = problem.ending || ending;
    become(word, { recoverable_until: problem.recoverable_until, held: true });
  };

  const look = async () => {
    const answer = await fetch(`${base}/snapshot`, { credentials: 'omit' });
    if (!answer.ok) throw new Error('snapshot');
    const seen = await answer.json();
    const ahead = placeOn(seen);
    const turned = phase !== null && phase !== seen.phase;
    phase = seen.phase;
    body.message = seen.message;
    body.seen_at = seen.now;
    body.serving_state = seen.serving_state;
    if (seen.serving_state === 'prequeue') body.starts_at = seen.event.starts_at;
    // Between two points of the curve a place is a guess: who seems to have fallen back asks.
    const back = ahead > body.people_ahead * 1.02 + 2;
    if (ahead === null || ahead < 3 || turned || back || OVER.includes(seen.serving_state)) return status();
    body.people_ahead = Math.min(body.people_ahead, ahead);
    body.estimated_wait = estimatedWait(seen.eta_model, body.lane, body.people_ahead);
    body.poll_after_ms = after(seen.poll_policy, body.estimated_wait);
    draw();
    follow();
  };

  // Everybody finds their own place between two points of the public curve.
  const placeOn = (seen) => {
    if (body.status !== 'waiting') return null;
    const points = seen.curve[body.lane], seq = body.seq;
    if (!points.length || seq <= seen.serving[body.lane]) return null;
    let low = 0, high = points.length - 1;
    while (low < high) { const middle = (low + high + 1) >> 1; if (points[middle][0] <= seq) low = middle; else high = middle - 1; }
    const [from, ahead] = points[low], next = points[low + 1];
    if (!next || next[0] === from) return ahead;
    return Math.floor(ahead + (next[1] - ahead) * (seq - from) / (next[0] - from));
  };

  const after = (policy, wait) =>
    wait.known ? Math.min(policy.ceiling_ms, Math.max(policy.floor_ms, wait.p50 * 1000 / policy.divisor)) : 15000;

  const status = async () => {
    const beats = Date.now() >= beatDue;
    const { ok, reply, after } = beats ? await ask('POST', '/heartbeat', { visible: !document.hidden }) : await ask('GET', '/status');
    if (!ok) return lose(reply, after);
    if (beats) beatDue = Date.now() + reply.heartbeat_after_ms;
    show(reply);
    follow();
  };

  const follow = () => {
    if (live || body.status !== 'waiting' || !(body.people_ahead < 50) || !window.EventSource) return;
    live = new EventSource(`${base}/events`);
    const stop = () => { live.close(); live = null; };
    for (const name of ['position', 'admitted', 'active', 'missed', 'gone']) {
      live.addEventListener(name, (event) => {
        show(JSON.parse(event.data));
        // Whatever was planned by the wait of before, a turn may soon be over.
        if (name !== 'position') { stop(); schedule(5000); }
      });
    }
    live.addEventListener('over', (event) => { stop(); lose(JSON.parse(event.data), 0); });
    live.onerror = stop;
  };

  const show = (reply) => {
    if (reply.position_id === body.position_id && reply.people_ahead > body.people_ahead) risenFrom = Math.min(risenFrom ?? Infinity, body.people_ahead);
    body = reply;
    draw();
  };

  const rounded = (count) => count < 100 ? count : count < 1000 ? Math.round(count / 10) * 10 : Math.round(count / 100) * 100;

  const sentence = (reply) => {
    const wait = reply.estimated_wait || { known: false };
    if (!wait.known) return say('unknown');
    const from = Math.floor(wait.p10 / 60), to = Math.ceil(wait.p90 / 60);
    if (to <= 1) return say('soon');
    if (to > 120) {
      const until = Math.ceil(wait.p90 / 1800) / 2;
      return say(form('hours', until), { from: number.format(Math.floor(wait.p10 / 1800) / 2), to: number.format(until) });
    }
    return from < 1 || from === to ? say(form('minutes', to), { n: number.format(to) }) : say(form('range', to), { from: number.format(from), to: number.format(to) });
  };

  // A promised time is kept, or moved back once: nobody is put off again and again.
  let promise = null, promised = null, holder = '';
  const hold = (wait) => {
    if (!wait || !wait.known || wait === promised) return;
    if (holder !== body.position_id) promise = null;
    const now = Date.now() / 1000;
    promise = keptPromise(promise, wait.p90, now);
    promised = wait;
    holder = body.position_id;
    wait.p90 = Math.max(wait.p50, promise.latest - now);
  };

  const draw = () => {
    if (body.status === 'waiting') hold(body.estimated_wait);
    const word = body.status, wait = body.estimated_wait || { known: false };
    const first = document.body.dataset.status !== word;
    document.body.dataset.status = word;
    const waits = WAITS.includes(word);
    at('headline').textContent = say(`head_${word}`);
    const said = OVER.includes(word) && ending ? ending.text[facts.lang] || Object.values(ending.text)[0] : '';
    at('text').textContent = said || say(word === 'closed' && body.held ? 'text_over' : `text_${word}`);
    const onward = OVER.includes(word) ? (ending && ending.link) || site : '';
    at('onward').hidden = !onward;
    if (onward) at('onward').firstElementChild.href = onward;
    at('why').hidden = QUIET.includes(word);
    for (const [id, words] of [['join', ['new', 'gone', 'done', 'invite', 'crowded', 'cookies']], ['code-box', ['invite']], ['claim', ['admitted', 'active']], ['recover', ['missed']], ['rejoin', ['left']], ['leave', ['waiting', 'prequeued', 'returned', 'admitted']]]) at(id).hidden = !words.includes(word);
    at('captcha').hidden = word !== 'captcha';
    at('numbers').hidden = !(waits || word === 'admitted' || word === 'missed' || body.again_at);
    at('ahead-box').hidden = at('place-box').hidden = !Number.isFinite(body.people_ahead);
    at('wait-box').hidden = !['waiting', 'returned'].includes(word);
    if (Number.isFinite(body.people_ahead)) {
      shownAhead = body.people_ahead;
      if (shownAhead <= risenFrom) risenFrom = null;
      at('ahead').textContent = number.format(rounded(shownAhead));
      // Where many are rounded, one's own place would be the same number once more.
      at('place-box').hidden = shownAhead >= 100;
      at('place').textContent = number.format(shownAhead + 1);
    }
    at('wait').textContent = sentence(body);
    clock(word, wait);
    banner(wait);
    notice();
    progress(word);
    // What comes from a room that cannot reach its store is as old as it says.
    at('updated').textContent = say('updated', { time: second.format(body.seen_at ? new Date(body.seen_at) : new Date()) });
    if (body.position_id) { at('ticket').textContent = body.position_id.slice(-6); at('ticket-line').hidden = false; }
    at('notify').hidden = !waits || audio !== null;
    const minutes = wait.known ? Math.ceil(wait.p50 / 60) : null;
    const short = minutes > 120 ? sentence(body) : say(form('minutes', minutes ?? 0), { n: number.format(minutes ?? 0) });
    document.title = word === 'admitted' || word === 'missed' ? `● ${say(`head_${word}`)}` : minutes === null || !waits ? facts.title : `(${short}) ${facts.title}`;
    if (first) enter(word);
    else if (word === 'waiting' && wait.known) speak(wait.p50);
  };

  // What the clock of the page runs down to.
  const deadline = () => {
    const later = body.serving_state === 'prequeue' ? body.starts_at : null;
    return { admitted: body.claim_deadline, prequeued: body.starts_at, waiting: later, returned: later, missed: body.recoverable_until }[body.status] || body.again_at;
  };
  const clock = (word, wait) => {
    const until = deadline();
    const eta = word === 'waiting' && wait.known ? new Date(Date.now() + wait.p50 * 1000) : null;
    at('clock-box').hidden = !until && !eta;
    const far = until && new Date(until) - now() >= 86400000, starts = far ? 'starts' : 'starts_in';
    const label = { admitted: 'left', prequeued: starts, waiting: starts, returned: starts, missed: 'until' }[word];
    at('clock-word').textContent = say((until && label) || (body.again_at ? 'again' : 'clock'));
    at('clock').textContent = until ? countdown(until) : eta ? time.format(eta) : '';
    if (word === 'prequeued' && until) at('clock').title = second.format(new Date(until));
  };

  const countdown = (until) => {
    const left = Math.max(0, Math.round((new Date(until) - now()) / 1000));
    const two = (count) => String(count).padStart(2, '0');
    const minutes = Math.floor(left / 60), days = Math.floor(left / 86400);
    if (minutes < 60) return `${minutes}:${two(left % 60)}`;
    const hours = `${Math.floor(minutes / 60) % 24}:${two(minutes % 60)}:${two(left % 60)}`;
    // Days and more are shown as an instant.
    return days ? new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeStyle: 'short' }).format(new Date(until)) : hours;
  };

  const banner = (wait) => {
    const stands = ['waiting', 'returned'].includes(body.status);
    const slower = stands && wait.known && shownWait !== null && wait.p50 > shownWait * 1.2 + 30;
    const held = { paused: 'paused', prequeue: 'later' }[body.serving_state];
    const word = stands ? held || (risenFrom !== null ? 'rose' : slower ? 'slower' : '') : '';
    at('banner').hidden = !word;
    if (word) at('banner').textContent = say(word);
    if (!stands) shownWait = null;
    else if (wait.known && !slower) shownWait = wait.p50;
  };

  const notice = () => {
    const message = body.message, text = message && (message.text[facts.lang] || message.text.en || Object.values(message.text)[0]);
    const box = at('notice');
    if (text && box.textContent !== text) announce(text);
    box.textContent = text || '';
    box.hidden = !text;
    box.className = `notice ${message && message.level === 'warning' ? 'warning' : 'info'}`;
  };

  const progress = (word) => {
    const bar = at('progress');
    bar.hidden = word !== 'waiting';
    if (word !== 'waiting') return;
    const key = `wr:${body.position_id}`;
    let began = shownAhead;
    try { began = Math.max(shownAhead, Number(localStorage.getItem(key)) || 0); localStorage.setItem(key, began); } catch { /* private windows keep nothing */ }
    const done = began ? Math.round(100 * (1 - shownAhead / began)) : 100;
    at('bar').style.width = `${done}%`;
    bar.setAttribute('aria-valuenow', done);
    bar.setAttribute('aria-valuetext', say('progress_text', { n: number.format(rounded(shownAhead)), wait: sentence(body) }));
  };

  const enter = (word) => {
    if (word === 'admitted') {
      at('turn').textContent = say('head_admitted');
      at('enter').focus();
      if (document.hidden) call();
    } else announce(say(`head_${word}`));
    goIn();
  };

  // Nobody looks: the title says it already, and the turn waits for its whole window.
  // Browsers play sounds only on pages where somebody has pressed something.
  let audio = null;
  const arm = async () => {
    try { audio = new AudioContext(); await audio.resume(); ring(); } catch { audio = false; }
    at('notify').hidden = true;
    if ('Notification' in window && Notification.permission === 'default') await Notification.requestPermission();
  };
  const ring = () => [0, 0.3].forEach((start, step) => {
    const tone = audio.createOscillator(), volume = audio.createGain();
    tone.frequency.value = step ? 880 : 660;
    volume.gain.value = 0.1;
    tone.connect(volume).connect(audio.destination);
    tone.start(audio.currentTime + start);
    tone.stop(audio.currentTime + start + 0.2);
  });
  const call = () => {
    try { new Notification(say('head_admitted'), { body: facts.title }).onclick = () => window.focus(); } catch { /* not allowed */ }
    if (navigator.vibrate) navigator.vibrate([200, 100, 200]);
    if (audio) ring();
  };

  // Whoever sees the page goes in without a press; whoever came back to it from inside does not.
  const returned = performance.getEntriesByType('navigation')[0]?.type === 'back_forward';
  const lately = () => {
    try { return Date.now() - Number(sessionStorage.getItem(`wr:${facts.queue}`)) < 15000; } catch { return true; }
  };
  const goIn = () => {
    const inside = body.status === 'active' || body.status === 'pass';
    if (!(inside && !returned) && body.status !== 'admitted') return;
    if (entering || document.hidden || facts.stays) return;
    // Who is sent back here at once has a browser that keeps no session for the site.
    if (inside && lately()) { complain('text_cookies'); return; }
    entering = true;
    try { sessionStorage.setItem(`wr:${facts.queue}`, Date.now()); } catch { /* nothing is kept */ }
    at('claim').requestSubmit();
  };
  addEventListener('pageshow', (event) => {
    if (!event.persisted) return;
    // Back from inside, on the page as it was left: it asks anew how things stand.
    entering = facts.stays = true;
    body = { status: 'loading', estimated_wait: { known: false } };
    tick();
  });

  // Only what matters is spoken: every halving of the wait, five minutes, one minute.
  const speak = (seconds) => {
    const next = seconds <= 60 ? 60 : seconds <= 300 ? 300 : 2 ** Math.ceil(Math.log2(seconds));
    if (next < milestone) announce(sentence(body));
    milestone = Math.min(milestone, next);
  };
  const announce = (text) => { at('announce').textContent = text; };

  // Browsers let the timers of a hidden page fire once a minute, but not those of its workers.
  const clockwork = (() => {
    const source = 'let timer; onmessage = (asked) => { clearTimeout(timer); timer = setTimeout(() => postMessage(0), asked.data); };';
    try { return new Worker(URL.createObjectURL(new Blob([source], { type: 'text/javascript' }))); } catch { return null; }
  })();
  const wake = () => { if (Date.now() + 20 >= due) tick(); };
  if (clockwork) clockwork.onmessage = wake;

  const sleep = (ms) => {
    due = Date.now() + ms;
    clearTimeout(timer);
    timer = setTimeout(wake, ms);
    if (clockwork) clockwork.postMessage(ms);
  };

  // Whether the page is seen or not, it looks as often and is heard as often as the room wants.
  const schedule = (ms) => {
    const heard = WAITS.includes(body.status) ? Math.max(500, beatDue - Date.now()) : Infinity;
    sleep(Math.min(ms * (1 + Math.random() * 0.3), heard));
  };

  const tick = async () => {
    if (busy) return;
    busy = true;
    due = Infinity;
    try {
      if (STILL.includes(body.status)) return;
      lastLook = Date.now();
      if (body.status === 'loading') { await load(); errors = 0; return; }
      if (AGAIN.includes(body.status)) { await join(); errors = 0; return; }
      if (Date.now() >= beatDue || body.status !== 'waiting') await status();
      else await look();
      errors = 0;
      schedule(Math.min(body.poll_after_ms || 15000, body.status === 'admitted' ? 5000 : Infinity));
    } catch {
      errors += 1;
      if (body.status !== 'loading' && document.body.dataset.status === 'loading') draw();
      complain(body.status === 'loading' ? 'away' : AGAIN.includes(body.status) ? 'text_trouble_new' : 'text_trouble');
      sleep(Math.min(60000, Math.max(2000, (body.heartbeat_after_ms || Infinity) / 2), 2000 * 2 ** errors) * (1 + Math.random() * 0.3));
    } finally { busy = false; }
  };

  document.addEventListener('visibilitychange', () => {
    const waits = body.again_at && body.status !== 'cookies';
    if (!document.hidden) goIn();
    if (!document.hidden && !waits && Date.now() - lastLook > 3000) tick();
  });
  addEventListener('pagehide', () => {
    // A reload takes this back at once; a closed tab frees the place sooner.
    if (!['waiting', 'prequeued'].includes(body.status)) return;
    navigator.sendBeacon(`${base}/heartbeat`, new Blob([JSON.stringify({ leaving: true })], { type: 'application/json' }));
  });
  at('notify').addEventListener('click', arm);
  setInterval(() => {
    const until = deadline(), last = { left: body.rejoinable_until, missed: body.recoverable_until }[body.status];
    if (until) at('clock').textContent = countdown(until);
    if (last && new Date(last) <= now()) become('gone');
  }, 1000);

  tick();
})();
