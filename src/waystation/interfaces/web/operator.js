'use strict';
(() => {
  const { queue } = JSON.parse(document.getElementById('facts').textContent);
  const base = `/api/v1/admin/queues/${queue}`;
  const at = (id) => document.getElementById(id);
  const number = new Intl.NumberFormat();
  const history = [];
  let key = sessionStorage.getItem('operator') || '', stats = null, touched = false;

  const ask = async (method, path, content) => {
    const answer = await fetch(base + path, {
      method, cache: 'no-store',
      headers: { authorization: `Bearer ${key}`, ...(content === undefined ? {} : { 'content-type': 'application/json' }) },
      body: content === undefined ? undefined : JSON.stringify(content),
    });
    const told = answer.status === 204 ? {} : await answer.json();
    if (!answer.ok) throw Object.assign(new Error(told.detail || answer.statusText), { status: answer.status });
    return told;
  };

  const minutes = (seconds) => seconds === null ? '–' : seconds < 60 ? '< 1 min' : `${number.format(Math.round(seconds / 60))} min`;

  const look = async () => {
    try {
      stats = await ask('GET', '/stats');
      at('login').hidden = true; at('board').hidden = false; at('trouble').textContent = '';
      draw();
    } catch (error) {
      at('trouble').textContent = error.message;
      if (error.status === 401 || error.status === 403) { sessionStorage.removeItem('operator'); key = ''; at('login').hidden = false; at('board').hidden = true; return; }
    }
    setTimeout(look, 1000);
  };

  const draw = () => {
    const waiting = stats.waiting.reduce((a, b) => a + b, 0) + stats.prequeued + stats.returned;
    at('state').textContent = stats.serving_state;
    at('waiting').textContent = number.format(waiting);
    at('called').textContent = number.format(stats.called);
    at('active').textContent = `${number.format(stats.active)} / ${number.format(stats.max_active)}`;
    at('last-wait').textContent = minutes(stats.wait_p50);
    at('empty').textContent = emptyAt(stats.rate_per_minute, waiting);
    if (!touched) { at('rate').value = stats.rate_per_minute; preview(); }
    history.push({ at: Date.now(), in: stats.hour.total_enqueued || 0, out: stats.hour.total_admitted || 0, active: stats.active });
    while (history.length > 900) history.shift();
    chart();
    const names = ['normal', 'elevated', 'VIP', 'premium'];
    at('lanes').replaceChildren(...stats.waiting.map((count, lane) => row(names[lane], number.format(count), at(`w${lane}`).value || '–')).reverse());
  };

  const row = (...cells) => {
    const line = document.createElement('tr');
    for (const text of cells) { const cell = document.createElement('td'); cell.textContent = text; line.append(cell); }
    return line;
  };

  const emptyAt = (rate, waiting) => {
    if (!waiting) return 'now';
    if (!(rate > 0) || stats.serving_state !== 'running') return 'never';
    return new Date(Date.now() + waiting / rate * 60000).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' });
  };

  // Per minute, over the last ten seconds, so that the line is neither a comb nor a memory.
  const pace = (name, index) => {
    const here = history[index], before = history[Math.max(0, index - 10)];
    const seconds = (here.at - before.at) / 1000;
    return seconds > 0 ? Math.max(0, (here[name] - before[name]) * 60 / seconds) : 0;
  };

  const chart = () => {
    const arrivals = history.map((_, index) => pace('in', index)), admissions = history.map((_, index) => pace('out', index)), active = history.map((each) => each.active);
    at('flow').textContent = number.format(Math.round(admissions[admissions.length - 1] || 0));
    const top = Math.max(10, ...arrivals, ...admissions, ...active);
    const plot = (id, values) => at(id).setAttribute('points', values.map((value, index) => `${(600 * index / Math.max(60, history.length - 1)).toFixed(1)},${(175 - 170 * value / top).toFixed(1)}`).join(' '));
    plot('line-arrivals', arrivals); plot('line-admissions', admissions); plot('line-active', active);
    at('scale').textContent = `top of the chart: ${number.format(Math.ceil(top))}`;
    if (!at('grid').childNodes.length) for (const y of [5, 47.5, 90, 132.5, 175]) {
      const line = document.createElementNS('http://www.w3.org/2000/svg', 'line');
      for (const [name, value] of [['x1', 0], ['x2', 600], ['y1', y], ['y2', y]]) line.setAttribute(name, value);
      at('grid').append(line);
    }
  };

  const preview = () => {
    at('rate-shown').textContent = number.format(at('rate').value);
    if (!stats) return;
    const waiting = stats.waiting.reduce((a, b) => a + b, 0) + stats.returned;
    at('preview').textContent = !waiting ? '' : `The line would be empty at ${emptyAt(Number(at('rate').value), waiting)} instead of ${emptyAt(stats.rate_per_minute, waiting)}.`;
  };

  const act = async (sentence, method, path, content) => {
    at('done').textContent = '';
    try { await ask(method, path, content); at('done').textContent = sentence; at('trouble').textContent = ''; }
    catch (error) { at('trouble').textContent = error.message; }
  };
  const on = (id, event, step) => at(id).addEventListener(event, (happened) => { happened.preventDefault(); step(); });

  const settings = async () => {
    const room = await ask('GET', '');
    room.settings.lane_weights.forEach((weight, lane) => { at(`w${lane}`).value = weight; });
    at('planned').textContent = room.event_start_time ? `Planned for ${new Date(room.event_start_time).toLocaleString()}${room.commit ? `, commitment ${room.commit.slice(0, 16)}…` : ''}` : '';
  };
  const open = async () => { await look(); try { await settings(); } catch { /* the board says what is wrong */ } };

  on('login', 'submit', () => { key = at('key').value.trim(); sessionStorage.setItem('operator', key); open(); });
  on('pause', 'click', () => act('Paused: everybody keeps their place.', 'POST', '/pause'));
  on('resume', 'click', () => act('People are called in again.', 'POST', '/resume'));
  on('drain', 'click', () => act('Draining: nobody joins any more.', 'POST', '/drain'));
  on('rate', 'input', () => { touched = true; preview(); });
  on('rate-form', 'submit', async () => { await act('The rate is set.', 'POST', '/rate', { new_users_per_minute: Number(at('rate').value), ramp_seconds: Number(at('ramp').value) }); touched = false; });
  on('message-form', 'submit', () => act('Everybody is told.', 'POST', '/message', { text: { [at('message-lang').value]: at('message').value }, level: at('message-warning').checked ? 'warning' : 'info' }));
  on('message-clear', 'click', () => { at('message').value = ''; act('The message is gone.', 'POST', '/message', { text: {} }); });
  on('admit-form', 'submit', () => act('They are called.', 'POST', '/admit', { count: Number(at('admit').value) }));
  on('weights-form', 'submit', () => act('The lanes are set.', 'PATCH', '', { lane_weights: [0, 1, 2, 3].map((lane) => Number(at(`w${lane}`).value)) }));
  on('event-form', 'submit', async () => { await act('The start is planned.', 'POST', '/event', { starts_ms: new Date(at('starts').value).getTime(), shuffle_at_event_start: at('shuffle').checked }); await settings(); });

  if (key) open();
})();
