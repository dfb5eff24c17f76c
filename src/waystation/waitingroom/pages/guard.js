/* A waiting room in front of a static page:
   <script src="https://wait.example/v1/guard.js" data-queue="shop"></script> in its head.
   Nothing is shown before its visitor is inside; see docs/how-to/static-sites.md. */
(() => {
  "use strict";
  const script = document.currentScript;
  const { queue, fail = "closed" } = script.dataset;
  const room = new URL(script.src).origin;
  const shelf = `wr_s_${queue}`;
  const RENEW_MS = 60_000, AGAIN_MS = 5_000, PATIENCE_MS = 10_000;
  const page = document.documentElement;
  page.style.visibility = "hidden";

  const post = (path, body, headers = {}) =>
    fetch(room + path, {
      method: "POST",
      credentials: "omit",
      headers: body ? { "content-type": "application/json", ...headers } : headers,
      body: body ? JSON.stringify(body) : undefined,
      signal: AbortSignal.timeout(PATIENCE_MS),
    }).then((seen) => {
      if (seen.status >= 500 || seen.status === 429) throw new Error(`the room answered ${seen.status}`);
      return seen;
    });
  const about = (held, verb) =>
    post(`/api/v1/sessions/${encodeURIComponent(held.session_id)}/${verb}`, null, { "wr-session": held.session_token });

  /* The shelf is one for all tabs, so that two of them are one visitor. */
  function kept() {
    try { return JSON.parse(localStorage.getItem(shelf)); } catch { return null; }
  }
  function keep({ session_id, session_token }) {
    const held = { session_id, session_token };
    try { localStorage.setItem(shelf, JSON.stringify(held)); } catch { /* this page remembers it */ }
    return held;
  }
  function forget() {
    try { localStorage.removeItem(shelf); } catch { /* nothing was kept */ }
  }

  async function brought() {
    const parts = location.search.slice(1).split("&");
    const isToken = (each) => each.startsWith("wr_token=");
    const token = parts.find(isToken)?.slice(9);
    if (token === undefined) return null;
    const seen = await post("/v1/redeem", { token, host: location.host });
    const held = seen.ok ? keep(await seen.json()) : null;
    /* Only now: while the room does not answer, the token stays for the next try. */
    const rest = parts.filter((each) => !isToken(each)).join("&");
    history.replaceState(history.state, "", location.pathname + (rest && `?${rest}`) + location.hash);
    return held;
  }

  async function renewed() {
    const held = kept();
    if (!held) return null;
    const seen = await about(held, "activity");
    if (seen.ok) return keep(await seen.json());
    forget();
    return null;
  }

  async function straight() {
    const seen = await post("/v1/enter", { queue, host: location.host, agent: navigator.userAgent });
    return seen.ok ? keep(await seen.json()) : null;
  }

  function wait() {
    location.replace(`${room}/wait/${queue}?target=${encodeURIComponent(location.href)}`);
    return new Promise(() => {});
  }

  async function enter() {
    for (;;) {
      try {
        return (await brought()) ?? (await renewed()) ?? (await straight()) ?? (await wait());
      } catch {
        if (fail === "open") return null;
        await new Promise((go) => setTimeout(go, AGAIN_MS));
      }
    }
  }

  const session = enter().then((held) => {
    page.style.visibility = "";
    page.dispatchEvent(new CustomEvent("waiting-room-entered"));
    setInterval(() => {
      if (document.hidden || !kept()) return;
      renewed().then((still) => still ?? wait()).catch(() => {});
    }, RENEW_MS);
    return held;
  });

  window.waitingRoom = {
    /** The token of the session, for `Wr-Session` on requests to an API that checks it. */
    token: async () => (kept() ?? (await session))?.session_token ?? null,
    /** Ends the session and frees the seat for the next one. */
    complete: async () => {
      const held = kept() ?? (await session);
      forget();
      if (held) await about(held, "complete");
    },
  };
})();
