(() => {
  const clock = new Intl.DateTimeFormat([], { hour: '2-digit', minute: '2-digit', second: '2-digit' });
  let timer = 0;

  // What an operator should look at; nothing for a room that does what it is there for.
  const attention = ({ serving_state: state, waiting, returned, active, called, max_active: seats, rate_per_minute: rate, alarms, served }) => {
    const said = Object.values(alarms).join('; ');
    if (said) return said;
    const line = waiting.reduce((a, b) => a + b, 0) + returned;
    if (state === 'fail_open') return 'everybody is let in';
    if (!line) return '';
    if (state === 'paused') return 'paused while people wait';
    if (state === 'closed' || state === 'sold_out') return 'over while people wait';
    if (!served) return 'nobody serves it';
    if (state === 'running' && !(rate > 0)) return 'the rate is 0 while people wait';
    return state === 'running' && active + called >= seats ? 'all seats are taken' : '';
  };

  const row = ({ id, stats }) => {
    const line = document.createElement('tr'), link = made('a', id), name = document.createElement('th'), state = made('span', stats.serving_state.replace('_', ' '));
    link.href = `/operate/${encodeURIComponent(id)}`;
    name.scope = 'row';
    name.append(link);
    state.className = 'state';
    state.dataset.state = stats.serving_state;
    const shown = document.createElement('td');
    shown.append(state);
    const { hour } = stats;
    const numbers = [
      number.format(stats.waiting.reduce((a, b) => a + b, 0) + stats.returned + stats.prequeued),
      `${number.format(stats.active)} / ${number.format(stats.max_active)}`,
      stats.admission_rate_actual === null ? '–' : number.format(Math.round(stats.admission_rate_actual)),
      minutes(stats.wait_p50),
      share(hour.total_missed || 0, hour.total_admitted || 0),
      share(hour.estimate_in || 0, hour.estimate_n || 0),
    ].map((text) => Object.assign(made('td', text), { className: 'n' }));
    line.append(name, shown, made('td', attention(stats)), ...numbers);
    return line;
  };

  const look = async () => {
    clearTimeout(timer);
    try {
      const { queues } = await ask('GET', `${admin}/queues`);
      at('list').replaceChildren(...queues.sort((a, b) => a.id.localeCompare(b.id)).map(row));
      at('none').hidden = queues.length > 0;
      at('rooms').hidden = !queues.length;
      at('updated').textContent = `Last updated ${clock.format(new Date())}.`;
      at('trouble').textContent = '';
    } catch (error) {
      at('trouble').textContent = error.message;
      if (error.status === 401) { leave(); return; }
    }
    timer = setTimeout(look, 5000);
  };

  const leave = signing(look, () => clearTimeout(timer));
})();
