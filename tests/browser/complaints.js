() => {
  const found = [];
  const seen = (e) => e.checkVisibility({ visibilityProperty: true }) && !e.closest('.unseen');
  const name = (e) => (e.getAttribute('aria-label') || e.labels?.[0]?.textContent || e.textContent || e.title || '').trim();
  if (!document.documentElement.lang) found.push('the page names no language');
  if (!document.title.trim()) found.push('the page has no title');
  if (document.querySelectorAll('h1').length !== 1) found.push('there is not exactly one h1');
  if (!document.querySelector('main')) found.push('there is no main part');
  const ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) found.push(`the id ${id} is there twice`);
  for (const e of document.querySelectorAll('button, a[href], input, select, textarea')) {
    if (!seen(e) || e.type === 'hidden') continue;
    if (!name(e)) found.push(`a ${e.tagName} has no name`);
    const box = e.getBoundingClientRect();
    if (!['checkbox', 'radio', 'range'].includes(e.type) && !e.closest('.small') && box.height < 43.5) found.push(`${name(e)} is only ${box.height}px high`);
    if (e.tabIndex < 0) found.push(`${name(e)} cannot be reached by keyboard`);
  }
  for (const e of document.querySelectorAll('[role=progressbar]')) if (seen(e) && !(e.getAttribute('aria-label') && e.getAttribute('aria-valuetext'))) found.push('the progress bar says nothing');
  for (const e of document.querySelectorAll('svg[role=img]')) if (!e.querySelector('title')?.textContent) found.push('a picture has no title');
  if (document.documentElement.scrollWidth > innerWidth + 1) found.push(`the page is ${document.documentElement.scrollWidth}px wide on ${innerWidth}px`);
  const light = (text) => { const [r, g, b] = text.match(/[\d.]+/g).map(Number).map((v) => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; }); return .2126 * r + .7152 * g + .0722 * b; };
  const behind = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (!/^rgba.*, 0\)$|transparent/.test(c)) return c; } return 'rgb(255, 255, 255)'; };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const e = node.parentElement;
    if (!node.textContent.trim() || ['SCRIPT', 'STYLE', 'NOSCRIPT', 'TITLE', 'OPTION'].includes(e.tagName) || !seen(e)) continue;
    const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x);
    const ratio = (a + .05) / (b + .05);
    if (node.textContent.includes('`') && !e.closest('code, pre, .data, .signature')) found.push(`"${node.textContent.trim().slice(0, 30)}" shows backticks`);
    if (/\w{3}/.test(node.textContent) && e.getBoundingClientRect().width < parseFloat(getComputedStyle(e).fontSize)) found.push(`"${node.textContent.trim().slice(0, 30)}" stands letter by letter`);
    if (ratio < 4.5) found.push(`"${node.textContent.trim().slice(0, 30)}" has a contrast of ${ratio.toFixed(2)}`);
  }
  return found;
}
