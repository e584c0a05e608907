// dom.js: elements, text and figures. What the server gives becomes text and attributes, never
// markup.

const SVG = 'http://www.w3.org/2000/svg';

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? '' : String(value));
  }
  for (const child of children.flat(9))
    if (child !== null && child !== undefined && child !== false) node.append(child);
  return node;
}

export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function s(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

// Makes what is there like what is wanted, and leaves alone what is like that already: so focus,
// selection and scrolling outlive each update. An element with data-own is its owner's: it is kept
// as long as one of that name is wanted. Listeners are those of the first time.
export function morph(there, wanted) {
  const keyed = new Map();
  for (const node of there.childNodes)
    if (node.nodeType === 1 && node.dataset.key) keyed.set(node.dataset.key, node);
  let at = there.firstChild;
  for (const node of [...wanted.childNodes]) {
    const key = node.nodeType === 1 && node.dataset.key;
    const same = key ? keyed.get(key) : at;
    const fits = same && same.nodeType === node.nodeType && same.nodeName === node.nodeName &&
                 (node.nodeType !== 1 || ((same.dataset.key || '') === (node.dataset.key || '') &&
                  (same.dataset.own || '') === (node.dataset.own || '')));
    if (!fits) {
      there.insertBefore(node, at);
      continue;
    }
    if (same !== at) there.insertBefore(same, at);
    else at = at.nextSibling;
    if (node.nodeType !== 1) {
      if (same.nodeValue !== node.nodeValue) same.nodeValue = node.nodeValue;
      continue;
    }
    for (const { name } of [...same.attributes])
      if (!node.hasAttribute(name) && !(same.dataset.own && name === 'style')) same.removeAttribute(name);
    for (const { name, value } of node.attributes)
      if (same.getAttribute(name) !== value) same.setAttribute(name, value);
    if (!node.dataset.own && node.nodeName !== 'SELECT' && node.nodeName !== 'INPUT') morph(same, node);
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}

// ---- figures

const MINUS = '\u2212', NONE = '\u2013';

export function numberOf(value) {
  return typeof value === 'number' ? value : value === null || value === undefined ? NaN : Number(value);
}

export function number(value, digits = 4) {
  if (value === null || value === undefined) return NONE;
  const it = numberOf(value) + 0; // Minus zero is zero.
  if (Number.isNaN(it)) return 'NaN';
  if (!Number.isFinite(it)) return it > 0 ? '\u221e' : MINUS + '\u221e';
  const size = Math.abs(it);
  let text;
  if (size !== 0 && (size < 1e-4 || size >= 1e9)) {
    const [mantissa, exponent] = it.toExponential(digits - 2).split('e');
    text = `${Number(mantissa)}e${Number(exponent)}`;
  } else if (Number.isInteger(it)) {
    text = it.toLocaleString('en-US').replaceAll(',', '\u202f');
  } else {
    text = String(Number(it.toPrecision(digits)));
    if (size >= 10 ** digits) text = Math.round(it).toLocaleString('en-US').replaceAll(',', '\u202f');
  }
  return text.replaceAll('-', MINUS);
}

export function bytes(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return NONE;
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0, it = value;
  while (it >= 1024 && unit < units.length - 1) { it /= 1024; unit++; }
  return `${unit === 0 || it >= 100 ? Math.round(it) : Number(it.toPrecision(3))} ${units[unit]}`;
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return NONE;
  const it = Math.max(0, seconds);
  if (it < 0.1) return `${number(it * 1000, 2)} ms`;
  if (it < 10) return `${it.toFixed(1)} s`;
  if (it < 60) return `${Math.floor(it)} s`;
  if (it < 3600) return `${Math.floor(it / 60)} min ${Math.floor(it % 60)} s`;
  if (it < 86400) return `${Math.floor(it / 3600)} h ${Math.floor(it % 3600 / 60)} min`;
  return `${Math.floor(it / 86400)} d ${Math.floor(it % 86400 / 3600)} h`;
}

// A time as people say it; the whole of it is the element's title.
export function ago(at, now = Date.now() / 1000) {
  if (!at) return NONE;
  const since = now - at;
  let text;
  if (since < 0) text = `in ${duration(-since)}`;
  else if (since < 2) text = 'now';
  else if (since < 60) text = `${Math.floor(since)} s ago`;
  else if (since < 3600) text = `${Math.floor(since / 60)} min ago`;
  else if (since < 86400) text = `${Math.floor(since / 3600)} h ago`;
  else text = `${Math.floor(since / 86400)} d ago`;
  return h('time', { datetime: new Date(at * 1000).toISOString(), title: new Date(at * 1000).toLocaleString() }, text);
}

export function clock(at, span) {
  const it = new Date(at * 1000);
  const two = (value) => String(value).padStart(2, '0');
  if (span > 2 * 86400) return `${it.toLocaleString('en-GB', { day: 'numeric', month: 'short' })}`;
  const text = `${two(it.getHours())}:${two(it.getMinutes())}`;
  return span < 600 ? `${text}:${two(it.getSeconds())}` : text;
}

export function plain(value) {
  if (typeof value === 'number') return number(value, 6);
  if (typeof value === 'string') return value;
  return JSON.stringify(value);
}

export function plural(count, one, many = one + 's') {
  return `${number(count)} ${count === 1 ? one : many}`;
}

// ---- pieces that views share

const STATES = {
  QUEUED: ['idle', 'Queued'], STARTING: ['go live', 'Starting'], RUNNING: ['go live', 'Running'],
  RESTARTING: ['warn live', 'Restarting'], PAUSED: ['warn', 'Paused'], LOST: ['bad', 'Lost'],
  DONE: ['ok', 'Done'], STOPPED: ['warn', 'Stopped'], FAILED: ['bad', 'Failed'], CANCELLED: ['idle', 'Cancelled'],
  ENDED: ['idle', 'Ended'], PENDING: ['idle', 'Pending'], TERMINATED: ['ok', 'Done'], ERROR: ['bad', 'Failed'],
};

export function badge(state) {
  const [kind, word] = STATES[state] || ['idle', state || 'unknown'];
  return h('span', { class: `badge ${kind}` }, h('span', { class: 'dot', 'aria-hidden': 'true' }), word);
}

export function part(title, tools, ...children) {
  return h('section', { class: 'part', 'aria-label': title },
    h('div', { class: 'head' }, h('h2', null, title), tools || ''), children);
}

export function empty(title, text, command) {
  return h('div', { class: 'empty' }, h('h2', null, title), h('p', null, text), command && h('pre', null, command));
}

// A table: columns {title, kind, sort}; rows are arrays of cells behind a key, of which the first is
// the row's header.
export function table(caption, columns, rows, options = {}) {
  const head = columns.map((column) => h('th', {
    scope: 'col', class: column.kind,
    'aria-sort': options.sorted === column.sort && column.sort ? (options.down ? 'descending' : 'ascending') : null,
  }, column.sort ? h('button', { type: 'button', 'data-sort': column.sort }, column.title,
    options.sorted === column.sort ? (options.down ? ' \u2193' : ' \u2191') : '') : column.title));
  const body = rows.map(({ key, cells, picked }) => h('tr', { 'data-key': `row-${key}`, 'data-row': key, class: picked && 'picked' },
    cells.map((cell, i) => h(i === (options.header || 0) ? 'th' : 'td',
      { scope: i === (options.header || 0) ? 'row' : null, class: columns[i].kind }, cell))));
  return h('div', { class: 'card wide', role: 'region', 'aria-label': caption, tabindex: '0' },
    h('table', { class: options.cards ? 'cards' : null }, h('caption', null, caption), h('thead', null, h('tr', null, head)), h('tbody', null, body)));
}

export function pairs(caption, object) {
  const rows = Object.entries(object || {}).map(([name, value]) =>
    h('tr', { 'data-key': `pair-${name}` }, h('th', { scope: 'row' }, name), h('td', { class: 'mono' }, plain(value))));
  return h('div', { class: 'card wide' }, h('table', { class: 'pairs' }, h('caption', null, caption), h('tbody', null, rows)));
}

export function facts(list) {
  return h('dl', { class: 'facts' }, list.filter(Boolean).map(([name, value, more]) =>
    h('div', null, h('dt', null, name), h('dd', { class: String(value.textContent ?? value).length > 13 ? 'long' : null }, value, more ? h('small', null, ' ', more) : ''))));
}

// Buttons of which one is chosen; data-choice is given to the view's `chosen`.
export function choice(label, name, options, chosen) {
  return h('div', { class: 'choice', role: 'group', 'aria-label': label }, options.map(([value, title]) =>
    h('button', { type: 'button', 'data-choice': name, 'data-value': value, 'aria-pressed': value === chosen ? 'true' : 'false' }, title)));
}

// ---- the server

export class Failure extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

async function said(reply) {
  if (reply.ok) return reply.json();
  let text = `the server answered ${reply.status}`;
  try { text = (await reply.json()).error.text; } catch (error) { /* It is no JSON. */ }
  if (reply.status === 401)
    text = 'This page has no right to ask the server any more: open a link that `troupe server link` makes.';
  throw new Failure(reply.status, text);
}

export async function get(path) {
  return said(await fetch(`/api/v1${path}`, { headers: { Accept: 'application/json' }, cache: 'no-cache' }));
}

export async function post(path, body) {
  return said(await fetch(`/api/v1${path}`, {
    method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body || {}),
  }));
}

export const part_of = encodeURIComponent;
