// Elements: every text becomes a text node, so nothing that is shown can become markup.

const SVG = 'http://www.w3.org/2000/svg';

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, '');
    else element.setAttribute(name, String(value));
  }
  append(element, children);
  return element;
}

export function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

export function replace(element, ...children) {
  element.replaceChildren();
  return append(element, children);
}

// Whether somebody has reached something in an element by keyboard, pressed or selected it, so that it must stay as it is.
export function held(element) {
  const chosen = getSelection();
  return element.querySelector(':focus-visible, [aria-busy]') !== null || (!chosen.isCollapsed && element.contains(chosen.anchorNode));
}

export const link = (to, attributes, ...children) => h('a', { href: `#${to}`, ...attributes }, ...children);

export const path = (...parts) => '/' + parts.map((part) => encodeURIComponent(part)).join('/');
