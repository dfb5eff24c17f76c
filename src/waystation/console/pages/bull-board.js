// The history for bull-board, in Node: nothing here runs in the console itself.
//
//   createBullBoard({ ..., options: { historyProvider: waystationHistory() } })

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const MOST_DAYS = 400;
const FRESH = 30_000;
const METRICS = new Set(['completed', 'failed']);

/**
 * What bull-board asks for its history of metrics, answered by a waystation console.
 *
 * `url` is where the console is, `key` a key of the role viewer where it asks for a sign-in.
 */
export function waystationHistory({ url = 'http://127.0.0.1:8090', key = '', patience = 20_000 } = {}) {
  const answers = new Map();

  return { getHistory };

  async function getHistory({ queue, metric, from, to, granularity }) {
    if (!METRICS.has(metric)) return [];
    const days = Math.min(MOST_DAYS, Math.max(1, Math.ceil((Date.now() - from) / DAY) + 1));
    const size = granularity === 'hour' ? HOUR : DAY;
    const first = Math.floor(from / size) * size;
    const sums = new Map();
    for (const hour of await hours(queue, days)) {
      const at = Date.parse(hour.at);
      const ts = Math.floor(at / size) * size;
      if (ts >= first && at <= to) sums.set(ts, (sums.get(ts) ?? 0) + hour[metric]);
    }
    return [...sums].map(([ts, value]) => ({ ts, value })).sort((a, b) => a.ts - b.ts);
  }

  // The board asks for each metric by itself, and all of them are in one answer.
  function hours(queue, days) {
    const asked = new URL('api/v1/history/hours', url.endsWith('/') ? url : `${url}/`);
    asked.search = new URLSearchParams({ product: 'bullmq', days, ...(queue ? { queue } : {}) });
    const known = answers.get(asked.href);
    if (known && Date.now() - known.at < FRESH) return known.hours;
    const found = { at: Date.now(), hours: read(asked) };
    found.hours.catch(() => answers.delete(asked.href));
    if (answers.size > 100) answers.clear();
    answers.set(asked.href, found);
    return found.hours;
  }

  async function read(asked) {
    const headers = { accept: 'application/json', ...(key ? { authorization: `Bearer ${key}` } : {}) };
    let answer;
    try {
      answer = await fetch(asked, { headers, signal: AbortSignal.timeout(patience) });
    } catch (error) {
      throw new Error(`the waystation console at ${url} does not answer: ${error.cause?.message ?? error.message}`);
    }
    const body = await answer.json().catch(() => ({}));
    if (!answer.ok) {
      throw new Error(`the waystation console at ${url} refused: ${body.detail ?? answer.status}`);
    }
    return body.available ? body.hours : [];
  }
}
