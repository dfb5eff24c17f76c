// What the page asks for, and whether an answer is still to come; an answer here is whole at once.
window.pending = 0;
window.heard = [Date.now()];
const ask = window.fetch;
window.fetch = async (...asked) => {
  if (String(asked[0]).endsWith('/heartbeat')) window.heard.push(Date.now());
  window.pending += 1;
  try {
    const answer = await ask(...asked);
    return new Response(await answer.text() || null, answer);
  } finally { window.pending -= 1; }
};
