(() => {
  const { queue } = JSON.parse(document.getElementById('facts').textContent);
  const base = `${admin}/queues/${queue}`;
  const clock = new Intl.DateTimeFormat([], { hour: '2-digit', minute: '2-digit' });
  const day = new Intl.DateTimeFormat([], { dateStyle: 'medium', timeStyle: 'short' });
  const history = [];
  let stats = null, touched = false, live = null;

  const inLine = () => stats.waiting.reduce((a, b) => a + b, 0) + stats.returned;

  // The numbers come by themselves; the browser asks for them again when they stop.
  const watch = () => {
    live = new EventSource(`${base}/stats/stream`);
    live.addEventListener('stats', (event) => { stats = JSON.parse(event.data); draw(); });
    live.onerror = () => { at('state').textContent = 'not connected'; at('state').dataset.state = ''; if (live.readyState === EventSource.CLOSED) setTimeout(watchAgain, 5000); };
  };
  const watchAgain = async () => {
    if (!live) return;
    try { await ask('GET', `${admin}/sign-in`); } catch (error) {
      if (error.status === 401) { at('trouble').textContent = error.message; leave(); return; }
    }
    watch();
  };

  const draw = () => {
    at('state').textContent = stats.serving_state.replace('_', ' ');
    at('state').dataset.state = stats.serving_state;
    at('waiting').textContent = number.format(inLine() + stats.prequeued);
    at('called').textContent = number.format(stats.called);
    at('active').textContent = `${number.format(stats.active)} / ${number.format(stats.max_active)}`;
    const alarms = [...(stats.served ? [] : ['nobody serves this room: no process lets people in']), ...Object.values(stats.alarms)].join('; ');
    if (at('alarms').textContent !== alarms) at('alarms').textContent = alarms;
    at('alarms').hidden = !alarms;
    at('last-wait').textContent = minutes(stats.wait_p50);
    at('empty').textContent = emptyAt(inLine() + stats.prequeued);
    const said = Object.values(stats.message).join(' · ');
    at('message-now').textContent = said ? `Visitors read: ${said}` : '';
    at('message-now').hidden = !said;
    at('pause').disabled = stats.serving_state === 'paused';
    at('resume').disabled = stats.serving_state === 'running';
    stats.waiting.forEach((count, lane) => { at(`lane${lane}`).textContent = number.format(count); });
    if (!touched) { at('rate').max = Math.max(600, round(3 * stats.rate_per_minute)); at('rate').value = at('rate-exact').value = stats.rate_per_minute; preview(); }
    history.push({ at: Date.now(), in: stats.hour.total_enqueued || 0, out: stats.hour.total_admitted || 0, active: stats.active, waiting: inLine() + stats.prequeued });
    while (history.length > 900) history.shift();
    chart();
  };

  // When the last comes in is known where the wait of the last is.
  const emptyAt = (waiting) => {
    if (!waiting) return 'now';
    return stats.wait_p50 === null ? '–' : clock.format(new Date(Date.now() + stats.wait_p50 * 1000));
  };

  // Per minute, over the last ten seconds, so that the line is neither a comb nor a memory.
  const pace = (name, index) => {
    const here = history[Math.max(1, index)], before = history[Math.max(0, index - 10)];
    if (!here) return 0;
    const seconds = (here.at - before.at) / 1000;
    return seconds > 0 ? Math.max(0, (here[name] - before[name]) * 60 / seconds) : 0;
  };

  const chart = () => {
    const lines = { waiting: history.map((each) => each.waiting), active: history.map((each) => each.active), arrivals: history.map((_, index) => pace('in', index)), admissions: history.map((_, index) => pace('out', index)) };
    at('flow').textContent = number.format(Math.round(lines.admissions.at(-1) || 0));
    const span = Math.max(60, history.length - 1);
    for (const [id, names] of [['chart', ['waiting', 'active']], ['pace', ['arrivals', 'admissions']]]) {
      const top = round(Math.max(10, ...names.flatMap((name) => lines[name])));
      const point = (value, index) => `${(600 - 600 * (history.length - 1 - index) / span).toFixed(1)},${(155 - 145 * value / top).toFixed(1)}`;
      for (const name of names) at(`line-${name}`).setAttribute('points', lines[name].map(point).join(' '));
      at(`${id}-top`).textContent = number.format(top);
      at(id).parentElement.querySelector('.ago span').textContent = span < 90 ? `${span} s ago` : `${Math.round(span / 60)} min ago`;
    }
  };
  const round = (value) => { const unit = 10 ** Math.floor(Math.log10(value)); return Math.ceil(value / unit) * unit; };

  // What the store remembers, by the minute and by the hour.
  let pastTimer = 0;
  const past = async () => {
    clearTimeout(pastTimer);
    try {
      const span = Number(at('span').value);
      const [{ minutes: all }, { hours }] = await Promise.all([ask('GET', `${base}/history?minutes=${span}`), ask('GET', `${base}/analytics`)]);
      const begin = Date.now() - span * 60000, kept = all.filter((each) => new Date(each.at) >= begin);
      trace('people', kept, begin, [(each) => each.waiting + each.prequeued, (each) => each.inside]);
      trace('flows', kept, begin, [(each) => each.arrivals + each.passed, (each) => each.admissions + each.passed, (each) => each.no_shows]);
      const busy = hours.filter((each) => each.enqueued || each.admitted || each.passed || each.peak_queue_size).reverse();
      at('hours').replaceChildren(...busy.map(hourRow));
      at('past-none').hidden = busy.length > 0;
    } catch (error) { if (error.status === 401) { leave(); return; } }
    pastTimer = setTimeout(past, 30000);
  };
  const trace = (id, kept, begin, values) => {
    const drawn = values.map((value) => kept.map(value)), top = round(Math.max(10, ...drawn.flat()));
    const x = (each) => 600 * (new Date(each.at) - begin) / (Date.now() - begin);
    at(id).querySelectorAll('polyline').forEach((line, which) => line.setAttribute('points', kept.map((each, index) => `${x(each).toFixed(1)},${(155 - 145 * drawn[which][index] / top).toFixed(1)}`).join(' ')));
    at(`${id}-top`).textContent = number.format(top);
    at(id).parentElement.querySelector('.ago span').textContent = clock.format(new Date(begin));
  };
  const hourRow = (each) => {
    const [year, month, date, hour] = [each.hour.slice(0, 4), each.hour.slice(4, 6), each.hour.slice(6, 8), each.hour.slice(8, 10)];
    const line = document.createElement('tr'), name = made('th', day.format(new Date(`${year}-${month}-${date}T${hour}:00:00Z`)));
    name.scope = 'row';
    const percent = (part) => part === null ? '–' : `${Math.round(100 * part)} %`, wait = (seconds) => seconds === null ? '–' : minutes(seconds);
    const texts = [number.format(each.enqueued + each.passed), number.format(each.peak_queue_size), number.format(each.admitted + each.passed), share(each.missed, each.admitted), wait(each.wait_p50_s), wait(each.wait_p90_s), percent(each.estimates_within), percent(each.estimate_error)];
    line.append(name, ...texts.map((text) => Object.assign(made('td', text), { className: 'n' })));
    return line;
  };

  const preview = () => {
    if (!stats) return;
    const waiting = inLine(), now = emptyAt(stats.rate_per_minute, waiting), then = emptyAt(Number(at('rate-exact').value), waiting);
    at('preview').textContent = !waiting || now === then ? '' : `The line would be empty at ${then} instead of ${now}.`;
  };

  const entry = (text, word, label, step) => {
    const line = document.createElement('li'), button = made('button', word);
    button.type = 'button'; button.className = 'quiet'; button.setAttribute('aria-label', label);
    button.addEventListener('click', step);
    line.append(made('span', text), button);
    return line;
  };

  const act = async (sentence, method, path, content) => {
    at('done').textContent = at('trouble').textContent = '';
    try {
      const reply = await ask(method, path, content);
      at('done').textContent = sentence;
      await lists();
      return reply;
    } catch (error) { at('trouble').textContent = error.message; if (error.status === 401) leave(); }
  };

  const lists = async () => {
    const room = await ask('GET', base), { events } = await ask('GET', `${base}/events`), { batches } = await ask('GET', `${base}/codes`);
    room.settings.lane_weights.forEach((weight, lane) => { if (document.activeElement !== at(`w${lane}`)) at(`w${lane}`).value = weight; });
    if (document.activeElement !== at('seats')) at('seats').value = room.settings.max_active;
    at('events').replaceChildren(...events.map((each) => {
      const name = each.name || 'Event', word = each.status === 'planned' ? 'Call off' : 'End';
      const lots = each.shuffle_at_event_start ? ', by lot' : '', commit = each.status === 'gathering' && room.commit ? `, commitment ${room.commit.slice(0, 16)}…` : '';
      return entry(`${name}: ${day.format(new Date(each.event_start_time))} to ${day.format(new Date(each.event_end_time))}${lots} (${each.status}${commit})`, word, `${word} ${name}`, () => act('It is off.', 'DELETE', `${base}/events/${each.id}`));
    }));
    at('batches').replaceChildren(...batches.map((each) => entry(`${each.batch}: ${number.format(each.codes)} codes for lane ${each.lane}, used ${number.format(each.used)} of ${number.format(each.codes * each.uses)} times`, 'Take back', `Take back ${each.batch}`, () => act('The codes count no longer.', 'DELETE', `${base}/codes/${each.batch}`))));
    const { limits } = await ask('GET', `${base}/alarms`);
    for (const [id, value] of [['alarm-waiting', limits.waiting], ['alarm-wait', limits.wait_minutes], ['alarm-shows', Math.round(100 * limits.no_shows)]]) if (document.activeElement !== at(id)) at(id).value = value;
    const { webhooks } = await ask('GET', `${base}/webhooks`);
    at('hooks').replaceChildren(...webhooks.map(hook));
    await keys();
    try {
      const { entries, total } = await ask('GET', `${admin}/audit?queue=${queue}`);
      at('audit-box').hidden = false;
      const ours = entries.slice(0, 50);
      at('audit-more').hidden = total <= ours.length;
      at('audit-more').textContent = `The last ${number.format(ours.length)} of ${number.format(total)} changes.`;
      at('audit').replaceChildren(...ours.map((each) => {
        const line = document.createElement('tr');
        line.append(made('td', day.format(new Date(Number(each.at)))), made('td', `${each.who} (${each.role})`), made('td', each.action), made('td', change(each)));
        return line;
      }));
      at('audit-none').hidden = ours.length > 0;
    } catch { at('audit-box').hidden = true; }
  };

  const hook = (each) => {
    const sent = `${number.format(each.delivered)} delivered`, fails = each.failures ? `, ${number.format(each.failures)} failed in a row: ${each.last_error}` : '';
    const line = entry(`${each.url}: ${each.events.join(', ')} (${sent}${fails})`, 'Remove', `Remove ${each.url}`, () => act('The webhook is gone.', 'DELETE', `${base}/webhooks/${each.id}`));
    const test = made('button', 'Test');
    test.type = 'button'; test.className = 'quiet'; test.setAttribute('aria-label', `Test ${each.url}`);
    test.addEventListener('click', async () => {
      const reply = await act('', 'POST', `${base}/webhooks/${each.id}/test`);
      if (reply) at(reply.taken ? 'done' : 'trouble').textContent = reply.taken ? 'The test was delivered.' : `The test was not delivered: ${reply.error}`;
    });
    line.lastChild.before(test);
    return line;
  };

  // Only an admin of all rooms may see who has a key.
  const keys = async () => {
    try {
      const { operators } = await ask('GET', `${admin}/operators`);
      at('keys-box').hidden = false;
      at('keys').replaceChildren(...operators.map((each) => {
        const where = each.queues.length ? `, ${each.queues.join(', ')} alone` : '', until = each.expires_at ? `, until ${day.format(new Date(each.expires_at))}` : '';
        return entry(`${each.name}: ${each.role}${where}${until}`, 'Revoke', `Revoke the keys of ${each.name}`, () => act('These keys count no longer.', 'DELETE', `${admin}/operators/${encodeURIComponent(each.name)}`));
      }));
    } catch { at('keys-box').hidden = true; }
  };

  const STANDS = { prequeued: 'waits for the opening', returned: 'took a missed turn back and is next', admitted: 'is called', active: 'is inside', missed: 'missed the turn', gone: 'is gone' };
  const stands = ({ status, people_ahead: ahead, estimated_wait: wait }) => status !== 'waiting' ? STANDS[status] || status : `waits, ${number.format(ahead)} ahead${wait.known ? `, about ${minutes(wait.p50)}` : ''}`;
  const find = async () => {
    at('done').textContent = at('trouble').textContent = '';
    try {
      const { positions } = await ask('GET', `${base}/positions?ticket=${encodeURIComponent(at('find').value.trim())}`);
      at('found').replaceChildren(...positions.map((each) => {
        const ticket = each.position_id.slice(-6), inside = each.status === 'active', word = inside ? 'End the session' : 'Remove';
        return entry(`${ticket} ${stands(each)}`, word, `${word} of ${ticket}`, async () => {
          if (await act(inside ? 'The session is over.' : 'The visitor is out of the line.', 'DELETE', `${base}/${inside ? 'sessions' : 'positions'}/${encodeURIComponent(each.position_id)}`)) find();
        });
      }));
      if (!positions.length) at('found').replaceChildren(made('li', 'Nobody in line or inside has this ticket.'));
    } catch (error) { at('trouble').textContent = error.message; if (error.status === 401) leave(); }
  };

  const change = ({ before, after }) => {
    const values = JSON.parse(after === 'null' ? before : after);
    if (values === null || typeof values !== 'object') return String(values ?? '');
    return Object.entries(values).filter(([name]) => !['version', 'updated_at'].includes(name)).map(([name, value]) => `${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`).join(', ');
  };

  // The waiting page as it would look, while it is being changed; nothing is kept until it is used.
  const files = { logo: 'logo', background: 'background', 'font-file': 'font_file' };
  let looks = {}, trying = 0;
  const chosen = () => ({ ...looks, accent: at('accent').value.trim(), accent_dark: at('accent-dark').value.trim(), font: at('font').value.trim(), text: { ...looks.text, en: at('own-text').value } });
  const wear = (theme) => {
    looks = theme;
    for (const [id, name] of [['accent', 'accent'], ['accent-dark', 'accent_dark'], ['font', 'font']]) at(id).value = theme[name] || '';
    at('own-text').value = (theme.text && theme.text.en) || '';
    for (const id of Object.keys(files)) at(id).value = '';
    return tryOn();
  };
  const tryOn = async () => {
    const path = `${base}/page/preview?status=${at('shown').value}`, theme = chosen();
    const answer = await fetch(path, { method: 'POST', cache: 'no-store', credentials: 'same-origin', headers: { 'content-type': 'application/json' }, body: JSON.stringify(theme) });
    at('looks-trouble').textContent = answer.ok ? '' : (await answer.json()).detail;
    if (!answer.ok) return;
    at('theme').value = JSON.stringify(theme);
    at('try-form').action = path;
    at('try-form').submit();
  };
  const soon = () => { clearTimeout(trying); trying = setTimeout(tryOn, 300); };
  for (const id of ['accent', 'accent-dark', 'font', 'own-text', 'shown']) at(id).addEventListener('input', soon);
  for (const [id, name] of Object.entries(files)) at(id).addEventListener('change', () => {
    const reader = new FileReader();
    // What a browser calls a font differs; what counts is what is in the file.
    reader.onload = () => { looks = { ...looks, [name]: name === 'font_file' ? reader.result.replace(/^data:[^,]*,/, 'data:font/woff2;base64,') : reader.result }; soon(); };
    if (at(id).files.length) reader.readAsDataURL(at(id).files[0]);
  });

  const begin = () => {
    watch();
    past();
    ask('GET', `${base}/page`).then(wear).catch(() => { at('looks').hidden = true; });
    lists().catch((error) => { at('trouble').textContent = error.message; });
  };
  const end = () => {
    for (const id of ['hook-secret', 'key-made']) at(id).textContent = '';
    at('hook-once').hidden = at('key-once').hidden = true;
    clearTimeout(pastTimer);
    if (live) live.close();
    live = null;
  };

  const time = (id) => at(id).value ? new Date(at(id).value).toISOString() : null;

  on('looks-form', 'submit', async () => { const reply = await act('The waiting page looks like this now.', 'PUT', `${base}/page`, chosen()); if (reply) wear(reply); });
  on('looks-clear', 'click', async () => { if (await act('The waiting page looks as it comes.', 'DELETE', `${base}/page`)) wear({}); });
  on('pause', 'click', () => act('Paused: everybody keeps their place.', 'POST', `${base}/pause`));
  on('resume', 'click', () => act('People are called in again.', 'POST', `${base}/resume`));
  on('drain', 'click', () => act('Draining: nobody joins any more.', 'POST', `${base}/drain`));
  for (const [moved, other] of [['rate', 'rate-exact'], ['rate-exact', 'rate']]) at(moved).addEventListener('input', () => { touched = true; at(other).value = at(moved).value; preview(); });
  on('rate-form', 'submit', async () => {
    const rate = at('rate-exact').value;
    if (rate === '') return;
    const isSet = await act('The rate is set.', 'POST', `${base}/rate`, { new_users_per_minute: Number(rate), ramp_seconds: Number(at('ramp').value) });
    // What was refused, or typed meanwhile, stays there.
    if (isSet) touched = at('rate-exact').value !== rate;
  });
  on('seats-form', 'submit', () => act('The seats are set.', 'PATCH', base, { max_active: Number(at('seats').value) }));
  on('queue-all-form', 'submit', () => act('Everybody waits.', 'POST', `${base}/queue-all`));
  on('fail-open-form', 'submit', () => act('Everybody who asks comes in, for now.', 'POST', `${base}/fail-open`, { minutes: Number(at('open-minutes').value) }));
  on('close-form', 'submit', () => {
    const typed = at('close-name').value.trim();
    at('close-name').value = '';
    const how = at('end-how').value, text = at('end-text').value.trim();
    if (typed === queue) act(how === 'close' ? 'It is over.' : 'It is sold out.', 'POST', `${base}/${how}`, { text: text ? { [at('message-lang').value]: text } : {}, link: at('end-link').value.trim() });
    else at('trouble').textContent = `Type ${queue} to end it.`;
  });
  on('message-form', 'submit', () => act('All visitors see the message.', 'POST', `${base}/message`, { text: { [at('message-lang').value]: at('message').value }, level: at('message-warning').checked ? 'warning' : 'info' }));
  on('message-clear', 'click', () => { at('message').value = ''; act('The message is gone.', 'POST', `${base}/message`, { text: {} }); });
  on('admit-form', 'submit', () => act('They are called.', 'POST', `${base}/admit`, { count: Number(at('admit').value) }));
  on('weights-form', 'submit', () => act('The lanes are set.', 'PATCH', base, { lane_weights: [0, 1, 2, 3].map((lane) => Number(at(`w${lane}`).value)) }));
  on('event-form', 'submit', () => act('It is planned.', 'POST', `${base}/events`, { name: at('event-name').value, event_start_time: time('starts'), event_end_time: time('ends'), prequeue_start_time: time('gathers'), shuffle_at_event_start: Boolean(time('gathers')) && at('shuffle').checked }));
  on('alarm-form', 'submit', () => act('The limits are set.', 'PUT', `${base}/alarms`, { waiting: Number(at('alarm-waiting').value), wait_minutes: Number(at('alarm-wait').value), no_shows: Number(at('alarm-shows').value) / 100 }));
  on('find-form', 'submit', find);
  at('span').addEventListener('change', past);
  on('hook-form', 'submit', async () => {
    const reply = await act('The webhook is added.', 'POST', `${base}/webhooks`, { url: at('hook-url').value.trim(), events: at('hook-events').value.split(',').map((each) => each.trim()).filter(Boolean) });
    if (reply) { at('hook-once').hidden = false; at('hook-secret').textContent = reply.secret; at('hook-form').reset(); }
  });
  on('key-form', 'submit', async () => {
    const reply = await act('The key is made.', 'POST', `${admin}/operators`, { name: at('key-name').value.trim(), role: at('key-role').value, queues: at('key-here').checked ? [queue] : [], days: Number(at('key-days').value) });
    if (reply) { at('key-once').hidden = false; at('key-made').textContent = reply.key; at('key-form').reset(); }
  });
  on('codes-form', 'submit', async () => {
    const reply = await act('These codes are shown this once.', 'POST', `${base}/codes`, { batch: at('batch').value, count: Number(at('count').value), uses: Number(at('uses').value), lane: Number(at('codes-lane').value) });
    if (reply) { at('codes').hidden = false; at('codes').value = reply.codes.join('\n'); at('codes').focus(); }
  });

  const leave = signing(begin, end);
})();
