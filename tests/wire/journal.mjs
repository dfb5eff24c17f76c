// What happened to one opened thing, in order, and the promises that wait for more of it.

export class Journal {
  entries = [];
  #waiting = new Set();

  write(type, fields = {}) {
    this.entries.push({ type, at: Date.now(), ...fields });
    for (const check of [...this.#waiting]) check();
  }

  /** Resolve with the entries that match, as soon as there are `count` of them. */
  until(match, count, timeoutMs) {
    return new Promise((resolve, reject) => {
      const check = () => {
        const found = this.entries.filter((entry) => matches(entry, match));
        if (found.length >= count) settle(() => resolve(found));
      };
      const giveUp = () => settle(() => reject(this.#shortfall(match, count, timeoutMs)));
      const timer = setTimeout(giveUp, timeoutMs);
      const settle = (end) => {
        clearTimeout(timer);
        this.#waiting.delete(check);
        end();
      };
      this.#waiting.add(check);
      check();
    });
  }

  #shortfall(match, count, timeoutMs) {
    const found = this.entries.filter((entry) => matches(entry, match)).length;
    const last = this.entries.slice(-10).map((entry) => JSON.stringify(entry)).join('\n  ');
    return new Error(
      `waited ${timeoutMs} ms for ${count} of ${JSON.stringify(match)}, saw ${found}; ` +
        `the last entries are:\n  ${last}`,
    );
  }
}

/** Whether a value has all that is asked: objects by the fields named, a list as "one of these". */
export function matches(value, wanted) {
  if (Array.isArray(wanted)) return wanted.some((one) => matches(value, one));
  if (wanted === null || typeof wanted !== 'object') return value === wanted;
  if (value === null || typeof value !== 'object') return false;
  return Object.entries(wanted).every(([key, one]) => matches(value[key], one));
}
