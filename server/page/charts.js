// charts.js: drawings of curves, use over time, and histograms, in SVG of the size that they have on
// the page. Each shows the values below the pointer, or where the arrow keys lead.
import { h, s, number, duration, clock } from '/dom.js';

const LEFT = 58, RIGHT = 14, TOP = 10, BOTTOM = 24;

export function ticks(low, high, most) {
  const span = high - low || 1, raw = span / Math.max(1, most), base = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((times) => times * base).find((it) => it >= raw * 0.999) || 10 * base;
  const out = [];
  for (let i = Math.ceil(low / step - 1e-9) + 0; i * step <= high + step * 1e-9; i++) out.push(i * step);
  return out;
}

function timeTicks(low, high, most) {
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];
  const span = high - low, step = steps.find((it) => span / it <= most) || 604800 * Math.ceil(span / most / 604800);
  const out = [];
  for (let at = Math.ceil(low / step) * step; at <= high; at += step) out.push(at);
  return span < 2 ? ticks(low, high, most) : out;
}

// Bytes are counted in powers of 1024.
function byteTicks(low, high, most) {
  const unit = 1024 ** Math.max(0, Math.floor(Math.log(Math.max(1, high)) / Math.log(1024)));
  return ticks(low / unit, high / unit, most).map((it) => it * unit);
}

function logTicks(low, high) {
  const out = [];
  for (let e = Math.floor(low); e <= Math.ceil(high); e++)
    for (const times of high - low > 3 ? [1] : [1, 2, 5])
      if (Math.log10(times) + e >= low - 1e-9 && Math.log10(times) + e <= high + 1e-9) out.push(Math.log10(times) + e);
  return out;
}

const AXES = {
  reports: { ticks: (a, b, n) => ticks(a, b, n).filter(Number.isInteger), label: (at) => number(at), tip: (at) => `report ${number(Math.round(at))}` },
  time: { ticks: timeTicks, label: (at) => duration(at).replace(/ 0 (s|min|h)$/, ''), tip: (at) => `after ${duration(at)}` },
  clock: { ticks: timeTicks, label: (at, span) => clock(at, span), tip: (at, span) => clock(at, Math.min(span, 599)) },
};

// What all drawings share: a figure that draws itself anew when its size or its data change.
class Drawing {
  constructor(height) {
    this.height = height;
    this.title = h('b', null, '');
    this.value = h('span', null, '');
    this.plot = h('div', { class: 'plot', tabindex: '0', role: 'img' });
    this.tip = h('div', { class: 'tip', hidden: true });
    this.element = h('figure', { class: 'card chart' }, h('figcaption', null, this.title, this.value), this.plot);
    this.plot.append(this.tip);
    this.at = null;
    new ResizeObserver(() => this.redraw()).observe(this.plot);
    this.plot.addEventListener('pointermove', (event) => this.point(event.clientX - this.plot.getBoundingClientRect().left));
    this.plot.addEventListener('pointerdown', (event) => this.point(event.clientX - this.plot.getBoundingClientRect().left));
    this.plot.addEventListener('pointerleave', () => this.leave());
    this.plot.addEventListener('blur', () => this.leave());
    this.plot.addEventListener('keydown', (event) => this.key(event));
  }

  leave() {
    this.at = null;
    this.tip.hidden = true;
    if (this.cursor) this.cursor.replaceChildren();
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -1e9, End: 1e9 }[event.key];
    if (event.key === 'Escape') this.leave();
    if (!step || !this.places || !this.places.length) return;
    event.preventDefault();
    const last = this.places.length - 1;
    const from = this.at === null ? (step < 0 ? last + 1 : -1) : this.nearest(this.at);
    this.show(this.places[Math.max(0, Math.min(last, from + step))]);
  }

  nearest(at) {
    const places = this.places;
    let low = 0, high = places.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (places[middle] < at) low = middle + 1; else high = middle;
    }
    return low > 0 && at - places[low - 1] < places[low] - at ? low - 1 : low;
  }

  redraw() {
    const width = this.plot.clientWidth;
    if (width < 60 || !this.data) return;
    this.width = width;
    const svg = this.draw(width, this.height);
    const link = this.svg && this.svg.contains(document.activeElement) && document.activeElement.getAttribute('href');
    if (this.svg) this.svg.replaceWith(svg); else this.plot.prepend(svg);
    this.svg = svg;
    if (link) [...svg.querySelectorAll('a')].find((it) => it.getAttribute('href') === link)?.focus({ preventScroll: true });
    if (this.at !== null) this.show(this.at);
  }

  placeTip(x, y, content) {
    this.tip.replaceChildren(...content);
    this.tip.hidden = false;
    const half = this.tip.offsetWidth / 2;
    const left = Math.max(half, Math.min(this.width - half, x));
    this.tip.style.transform = `translate(calc(${left}px - 50%), calc(${Math.max(y, 4)}px - 100% - 10px))`;
  }
}

// Lines over reports, training time or the clock. data: {title, value, axis, log, low0, limit, from, to,
// format, series: [{name, kind, slots: [[from, to, mean, low, high, count]]}], restarts, changes,
// checkpoints, stacked}
export class Lines extends Drawing {
  constructor(height = 210) { super(height); }

  update(data) {
    this.data = data;
    this.title.textContent = data.title;
    this.value.textContent = data.value || '';
    this.plot.setAttribute('aria-label', `${data.title}: ${data.about || `a curve of ${data.series.length} series`}. ${data.value ? `Last ${data.value}. ` : ''}Arrow keys show values.`);
    this.redraw();
  }

  scales(width, height) {
    const data = this.data, axis = AXES[data.axis];
    let x0 = data.from ?? Infinity, x1 = data.to ?? -Infinity, low = Infinity, high = -Infinity;
    const places = new Set();
    const sums = [];
    for (const line of data.series)
      for (const [i, slot] of line.slots.entries()) {
        if (data.from === undefined) x0 = Math.min(x0, slot[0]);
        if (data.to === undefined) x1 = Math.max(x1, slot[1]);
        places.add((slot[0] + slot[1]) / 2);
        sums[i] = (sums[i] || 0) + (Number.isFinite(slot[2]) ? slot[2] : 0);
        if (!Number.isFinite(slot[2])) continue;
        low = Math.min(low, slot[3] ?? slot[2]);
        high = Math.max(high, data.stacked ? sums[i] : slot[4] ?? slot[2]);
      }
    if (!Number.isFinite(x0)) { x0 = 0; x1 = 1; }
    if (x1 <= x0) x1 = x0 + 1;
    this.places = [...places].sort((a, b) => a - b);
    this.log = data.log && low > 0 && high / low > 1;
    if (data.low0) low = 0;
    if (data.limit !== undefined) high = Math.max(high, data.limit * 1.04);
    if (!Number.isFinite(low)) low = 0;
    if (!Number.isFinite(high)) high = low + 1;
    let v0 = this.log ? Math.log10(low) : low, v1 = this.log ? Math.log10(high) : high;
    if (v1 - v0 < 1e-12 * Math.max(1, Math.abs(v0))) { v0 -= data.low0 ? 0 : Math.abs(v0) * 0.1 || 0.5; v1 += Math.abs(v1) * 0.1 || 0.5; }
    const room = (v1 - v0) * 0.06;
    if (!data.low0) v0 -= room;
    v1 += room;
    const right = width - RIGHT, bottom = height - BOTTOM;
    return {
      axis, x0, x1, v0, v1, right, bottom,
      x: (at) => LEFT + (at - x0) / (x1 - x0) * (right - LEFT),
      y: (value) => bottom - ((this.log ? Math.log10(value) : value) - v0) / (v1 - v0) * (bottom - TOP),
    };
  }

  frame(to) {
    const format = this.data.format || number, out = [];
    const values = this.log ? logTicks(to.v0, to.v1) : (this.data.bytes ? byteTicks : ticks)(to.v0, to.v1, Math.max(2, this.height / 48));
    for (const value of values) {
      const real = this.log ? 10 ** value : value, y = to.y(real);
      out.push(s('line', { class: 'gridline', x1: LEFT, x2: to.right, y1: y, y2: y }),
        s('text', { x: LEFT - 8, y: y + 4, 'text-anchor': 'end' }, format(Math.abs(real) < 1e-12 * Math.abs(to.v1) ? 0 : real, 3)));
    }
    out.push(s('line', { class: 'axis', x1: LEFT, x2: to.right, y1: to.bottom, y2: to.bottom }));
    const span = to.x1 - to.x0;
    for (const at of to.axis.ticks(to.x0, to.x1, Math.max(2, Math.floor((to.right - LEFT) / 64))))
      out.push(s('text', { x: to.x(at), y: to.bottom + 17, 'text-anchor': 'middle' }, to.axis.label(at, span)));
    return out;
  }

  marks(to) {
    const data = this.data, out = [], line = (at, kind) =>
      s('line', { class: kind, x1: to.x(at), x2: to.x(at), y1: TOP, y2: to.bottom });
    for (const it of data.changes || []) out.push(line(it.at, 'mark-change'));
    for (const it of data.restarts || []) out.push(line(it.at, 'mark-restart'));
    let last = -9;
    for (const at of data.checkpoints || []) {
      const x = to.x(at);
      if (x - last < 5) continue;
      last = x;
      out.push(s('path', { class: 'mark-checkpoint', d: `M${x - 3.2},${to.bottom + 1}h6.4l-3.2,-5z` }));
    }
    return out;
  }

  curves(to) {
    const out = [];
    const mid = (slot) => to.x((slot[0] + slot[1]) / 2), fit = (value) => Math.max(-1e4, Math.min(1e4, value)).toFixed(1);
    if (this.data.stacked) return this.stack(to);
    for (const line of this.data.series) {
      let path = '', up = '', down = '', open = false;
      for (const slot of line.slots) {
        if (!Number.isFinite(slot[2]) || (this.log && slot[2] <= 0)) { open = false; continue; }
        path += `${open ? 'L' : 'M'}${mid(slot).toFixed(1)},${fit(to.y(slot[2]))}`;
        open = true;
        if (slot.length < 5 || (this.log && slot[3] <= 0)) continue;
        up += `${up ? 'L' : 'M'}${mid(slot).toFixed(1)},${fit(to.y(slot[4]))}`;
        down = `L${mid(slot).toFixed(1)},${fit(to.y(slot[3]))}${down}`;
      }
      if (up && !line.faint) out.push(s('path', { class: `band fill ${line.kind}`, d: `${up}${down}Z` }));
      if (line.slots.length === 1 && path) out.push(s('circle', { class: `fill ${line.kind}`, cx: mid(line.slots[0]), cy: to.y(line.slots[0][2]), r: 2.5 }));
      out.push(s('path', { class: `line stroke ${line.kind} ${line.faint ? 'faint' : ''} ${line.strong ? 'strong' : ''}`, d: path }));
    }
    return out;
  }

  // All series have the same slots.
  stack(to) {
    const out = [], below = [];
    for (const line of this.data.series) {
      let top = '', base = '';
      line.slots.forEach((slot, i) => {
        const from = below[i] || 0, value = Number.isFinite(slot[2]) ? slot[2] : 0;
        below[i] = from + value;
        top += `${top ? 'L' : 'M'}${to.x(slot[0]).toFixed(1)},${to.y(below[i]).toFixed(1)}H${to.x(slot[1]).toFixed(1)}`;
        base = `L${to.x(slot[1]).toFixed(1)},${to.y(from).toFixed(1)}H${to.x(slot[0]).toFixed(1)}${base}`;
      });
      if (top) out.push(s('path', { class: `area fill ${line.kind}`, d: `${top}${base}Z` }));
    }
    return out;
  }

  draw(width, height) {
    const to = this.to = this.scales(width, height);
    this.cursor = s('g', { class: 'cursor' });
    const limit = this.data.limit;
    return s('svg', { width, height, viewBox: `0 0 ${width} ${height}`, 'aria-hidden': 'true' },
      this.frame(to), this.marks(to), this.curves(to),
      limit === undefined ? '' : s('line', { class: 'limit', x1: LEFT, x2: to.right, y1: to.y(limit), y2: to.y(limit) }), this.cursor);
  }

  point(x) {
    if (!this.to || !this.places.length) return;
    const at = this.to.x0 + (x - LEFT) / (this.to.right - LEFT) * (this.to.x1 - this.to.x0);
    this.show(this.places[this.nearest(at)]);
  }

  show(at) {
    const to = this.to, format = this.data.format || number, rows = [], dots = [];
    this.at = at;
    const near = (slots) => slots.find((slot) => slot[0] <= at && at <= slot[1]);
    let low = TOP + 30;
    for (const line of this.data.series) {
      const slot = near(line.slots);
      if (!slot || !Number.isFinite(slot[2])) continue;
      if (!this.data.stacked) dots.push(s('circle', { class: `fill ${line.kind}`, cx: to.x(at), cy: to.y(slot[2]), r: 3.5 }));
      low = Math.min(low, this.data.stacked ? TOP : to.y(slot[2]));
      const spread = slot.length >= 5 ? ` (${format(slot[3], 4)} to ${format(slot[4], 4)})` : '';
      rows.push([slot[2], h('div', null, h('span', { class: `dot ${line.kind}` }), this.data.series.length > 1 ? line.name : '',
        h('b', null, format(slot[2], 6), spread))]);
    }
    if (rows.length > 9) rows.sort((a, b) => b[0] - a[0]);
    const more = rows.length > 9 ? [h('div', null, `and ${rows.length - 8} more`)] : [];
    const shown = rows.length > 9 ? rows.slice(0, 8) : rows;
    const marks = [...(this.data.restarts || []).map((it) => [it, 'restart']), ...(this.data.changes || []).map((it) => [it, it.text || it.kind])]
      .filter(([it]) => Math.abs(to.x(it.at) - to.x(at)) < 4).slice(0, 2)
      .map(([, text]) => h('div', null, text.slice(0, 60)));
    this.cursor.replaceChildren(s('line', { x1: to.x(at), x2: to.x(at), y1: TOP, y2: to.bottom }), ...dots);
    this.placeTip(to.x(at), low, [h('div', null, to.axis.tip(at, to.x1 - to.x0)), ...shown.map(([, row]) => row), ...more, ...marks]);
  }
}

export function spark(points, label) {
  const width = 96, height = 28, values = points.map(Number).filter(Number.isFinite);
  if (values.length < 2) return h('span', { class: 'soft' }, '');
  const low = Math.min(...values), high = Math.max(...values), span = high - low || 1;
  const at = values.map((value, i) => [2 + i / (values.length - 1) * (width - 6), height - 3 - (value - low) / span * (height - 6)]);
  const [x, y] = at[at.length - 1];
  return s('svg', { class: 'spark', viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': label },
    s('path', { d: 'M' + at.map(([a, b]) => `${a.toFixed(1)},${b.toFixed(1)}`).join('L') }), s('circle', { cx: x.toFixed(1), cy: y.toFixed(1), r: 2 }));
}

// How many took how long. data: {title, value, bounds: [[upper bound in s, how many took no longer]]}
export class Histogram extends Drawing {
  constructor(height = 170) { super(height); }

  update(data) {
    let before = 0;
    const all = data.bounds.map(([bound, count]) => { const bar = [bound, count - before]; before = count; return bar; });
    const first = all.findIndex(([, count]) => count > 0), last = all.findLastIndex(([, count]) => count > 0);
    this.data = data;
    this.bars = first < 0 ? [] : all.slice(Math.max(0, first - 1), last + 2);
    this.title.textContent = data.title;
    this.value.textContent = data.value || '';
    this.plot.setAttribute('aria-label', `${data.title}: a histogram. ${data.value || ''}`);
    this.redraw();
  }

  draw(width, height) {
    const bars = this.bars, bottom = height - BOTTOM, most = Math.max(1, ...bars.map(([, count]) => count));
    const step = (width - LEFT - RIGHT) / Math.max(1, bars.length);
    this.step = step;
    this.places = bars.map((_, i) => i);
    this.cursor = s('g', { class: 'cursor' });
    const y = (count) => bottom - count / most * (bottom - TOP);
    const every = Math.ceil(58 / step);
    return s('svg', { width, height, viewBox: `0 0 ${width} ${height}`, 'aria-hidden': 'true' },
      ticks(0, most, 3).filter(Number.isInteger).map((count) => [s('line', { class: 'gridline', x1: LEFT, x2: width - RIGHT, y1: y(count), y2: y(count) }),
        s('text', { x: LEFT - 8, y: y(count) + 4, 'text-anchor': 'end' }, number(count))]),
      bars.map(([bound, count], i) => [
        s('rect', { class: 'fill k0', x: LEFT + i * step + 1, width: Math.max(1, step - 2), y: y(count), height: bottom - y(count), rx: 1.5 }),
        i % every === 0 ? s('text', { x: LEFT + (i + 1) * step, y: bottom + 17, 'text-anchor': 'middle' }, Number.isFinite(bound) ? duration(bound) : '') : '']),
      s('line', { class: 'axis', x1: LEFT, x2: width - RIGHT, y1: bottom, y2: bottom }), this.cursor);
  }

  point(x) {
    if (!this.bars || !this.bars.length) return;
    this.show(Math.max(0, Math.min(this.bars.length - 1, Math.floor((x - LEFT) / this.step))));
  }

  show(i) {
    if (!this.bars[i]) return;
    this.at = i;
    const [bound, count] = this.bars[i];
    this.placeTip(LEFT + (i + 0.5) * this.step, 34, [h('div', null, `up to ${duration(bound)}`, h('b', null, number(count)))]);
  }
}

// Jobs over time. data: {from, to, rows: [{id, name, kind, wait, start, end, cpus, usage}]}
export class Bars extends Drawing {
  constructor() { super(80); this.element.classList.add('gantt'); this.plot.setAttribute('role', 'group'); }

  update(data) {
    this.data = data;
    this.title.textContent = data.title;
    this.value.textContent = data.value || '';
    this.plot.setAttribute('aria-label', `${data.title}: ${data.rows.length} jobs as bars`);
    this.height = data.rows.length * 30 + TOP + BOTTOM;
    this.redraw();
  }

  draw(width, height) {
    const data = this.data, left = width < 520 ? 98 : 174, right = width - RIGHT, bottom = height - BOTTOM;
    const span = data.to - data.from, x = (at) => left + Math.max(0, Math.min(1, (at - data.from) / span)) * (right - left);
    this.places = data.rows.map((_, i) => i);
    this.left = left;
    const lines = AXES.clock.ticks(data.from, data.to, Math.max(2, Math.floor((right - left) / 82)));
    const name = (text) => { const most = left < 100 ? 12 : 22; return text.length > most ? text.slice(0, most - 1) + '\u2026' : text; };
    return s('svg', { width, height, viewBox: `0 0 ${width} ${height}` },
      lines.map((at) => [s('line', { class: 'gridline', x1: x(at), x2: x(at), y1: TOP, y2: bottom }),
        s('text', { x: x(at), y: bottom + 17, 'text-anchor': 'middle' }, clock(at, span))]),
      data.rows.map((row, i) => {
        const y = TOP + i * 30 + 5, tall = 19;
        const group = s('g', { class: `row ${row.kind}`, 'data-row': i });
        const link = s('a', { href: `#/jobs/${row.id}`, 'aria-label': `${row.name}, ${row.state}` },
          s('text', { class: 'label', x: left - 16, y: y + 14, 'text-anchor': 'end' }, name(row.name)));
        group.append(link);
        if (row.swatch) group.append(s('rect', { class: `fill ${row.swatch}`, x: left - 11, y: y + 7, width: 6, height: 6, rx: 1.5 }));
        const word = x(row.end) + 70 < right ? { x: x(row.end) + 6 } : { x: x(row.wait || row.start || row.end) - 6, 'text-anchor': 'end' };
        group.append(s('text', { ...word, y: y + 14 }, row.state));
        const begin = row.start || row.end;
        if (row.wait && begin > row.wait && x(begin) - x(row.wait) > 1)
          group.append(s('rect', { class: 'bar-wait', x: x(row.wait), y: y + 6, width: x(begin) - x(row.wait), height: 7, rx: 3.5 }));
        if (!row.start) return group;
        group.append(s('rect', { class: 'bar-run', x: x(row.start), y, width: Math.max(3, x(row.end) - x(row.start)), height: tall, rx: 3 }));
        const usage = row.usage;
        if (usage && row.cpus > 0) {
          let path = '';
          usage.cpus.forEach((used, k) => {
            const a = usage.from + k * usage.width_s, b = Math.min(a + usage.width_s, row.end);
            if (b <= data.from || a > row.end) return;
            const part = Math.min(1, used / row.cpus) * (tall - 2);
            path += `M${x(a).toFixed(1)},${y + tall}V${(y + tall - part).toFixed(1)}H${x(b).toFixed(1)}V${y + tall}Z`;
          });
          group.append(s('path', { class: 'bar-used', d: path }));
        }
        if (usage && usage.gpus && row.gpus > 0) group.append(...this.strip(row, x, y + tall + 2));
        return group;
      }), this.cursor = s('g', { class: 'cursor' }));
  }

  // Below the bar: how busy the job's GPUs were.
  strip(row, x, y) {
    const usage = row.usage, tall = 6;
    let path = '';
    usage.gpus.forEach((busy, k) => {
      const a = usage.from + k * usage.width_s, b = Math.min(a + usage.width_s, row.end);
      if (busy === null || b <= this.data.from || a > row.end) return;
      path += `M${x(a).toFixed(1)},${y + tall}V${(y + tall - Math.min(1, busy / row.gpus) * tall).toFixed(1)}H${x(b).toFixed(1)}V${y + tall}Z`;
    });
    return [s('rect', { class: 'bar-run', x: x(row.start), y, width: Math.max(3, x(row.end) - x(row.start)), height: tall, rx: 1.5 }),
      s('path', { class: 'bar-used', d: path })];
  }

  point() { /* Rows are pointed at by their height. */ }

  key(event) {
    if (event.key === 'Escape') this.leave();
  }

  show() { /* See pointed. */ }

  // As by the pointer, for who comes to a job's link by the keyboard.
  focused(event) {
    const row = event.target.closest('[data-row]');
    if (row) this.showRow(Number(row.dataset.row), this.width / 2);
  }

  pointed(event) {
    const box = this.plot.getBoundingClientRect();
    this.showRow(Math.floor((event.clientY - box.top - TOP) / 30), event.clientX - box.left);
  }

  showRow(i, x) {
    const row = this.data && this.data.rows[i];
    if (!row) { this.leave(); return; }
    const lines = [h('div', null, row.name, h('b', null, row.state))];
    if (row.start && row.wait) lines.push(h('div', null, 'waited', h('b', null, duration(row.start - row.wait))));
    if (row.start) lines.push(h('div', null, 'ran', h('b', null, duration(row.end - row.start))));
    if (row.cpus) lines.push(h('div', null, 'CPUs', h('b', null, number(row.cpus))));
    if (row.used !== undefined) lines.push(h('div', null, 'used of them', h('b', null, `${Math.round(row.used * 100)} %`)));
    if (row.gpus) lines.push(h('div', null, 'GPUs', h('b', null, number(row.gpus))));
    if (row.gpus_used !== undefined) lines.push(h('div', null, 'busy of them', h('b', null, `${Math.round(row.gpus_used * 100)} %`)));
    this.placeTip(x, TOP + i * 30 + 6, lines);
  }
}

// Trials across what they were given. data: {axes: [{name, values|words}], rows: [{key, kind, at: [0..1]}]}
export class Parallel extends Drawing {
  constructor() { super(260); }

  update(data) {
    this.data = data;
    this.title.textContent = data.title;
    this.value.textContent = data.value || '';
    this.plot.setAttribute('aria-label', `${data.title}: ${data.rows.length} trials across ${data.axes.map((it) => it.name).join(', ')}. The table below has the values.`);
    this.places = data.rows.map((_, i) => i);
    this.redraw();
  }

  draw(width, height) {
    const data = this.data, top = 30, bottom = height - 22, side = Math.min(70, width / 8);
    const most = Math.max(4, Math.floor((width - 2 * side) / Math.max(1, data.axes.length - 1) / 6.6));
    const cut = (text) => text.length > most ? text.slice(0, most - 1) + '\u2026' : text;
    const x = (i) => side + (data.axes.length > 1 ? i / (data.axes.length - 1) : 0.5) * (width - 2 * side);
    const y = (part) => bottom - part * (bottom - top);
    this.x = x;
    this.y = y;
    this.cursor = s('g', { class: 'cursor' });
    return s('svg', { width, height, viewBox: `0 0 ${width} ${height}`, 'aria-hidden': 'true' },
      data.rows.map((row) => s('path', { class: `line stroke ${row.kind} ${row.strong ? 'strong' : 'faint'}`, d: 'M' + row.at.map((part, i) => `${x(i).toFixed(1)},${y(part).toFixed(1)}`).join('L') })),
      data.axes.map((axis, i) => [s('line', { class: 'limit', x1: x(i), x2: x(i), y1: top, y2: bottom }),
        s('text', { x: x(i), y: 12, 'text-anchor': 'middle' }, cut(axis.name.split('.').pop())),
        s('text', { x: x(i), y: top - 5, 'text-anchor': 'middle' }, cut(axis.high)), s('text', { x: x(i), y: bottom + 15, 'text-anchor': 'middle' }, cut(axis.low))]),
      this.cursor);
  }

  point() { /* By both coordinates: see pointed. */ }

  pointed(event) {
    if (!this.x || !this.data.rows.length) return;
    const box = this.plot.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
    const axes = this.data.axes.length - 1;
    let best = 0, least = Infinity;
    this.data.rows.forEach((row, i) => {
      for (let k = 0; k < Math.max(1, axes); k++) {
        const a = this.x(k), b = axes ? this.x(k + 1) : a + 1;
        if (px < a - 30 || px > b + 30) continue;
        const part = Math.max(0, Math.min(1, (px - a) / (b - a))), at = this.y(row.at[k]) + part * (this.y(row.at[Math.min(k + 1, axes)]) - this.y(row.at[k]));
        if (Math.abs(at - py) < least) { least = Math.abs(at - py); best = i; }
      }
    });
    if (least < 30) this.show(best); else this.leave();
  }

  show(i) {
    const row = this.data.rows[i];
    if (!row) return;
    this.at = i;
    this.cursor.replaceChildren(s('path', { class: `line stroke ${row.kind} strong`, d: 'M' + row.at.map((part, k) => `${this.x(k)},${this.y(part)}`).join('L') }));
    this.placeTip(this.width / 2, 60, [h('div', null, row.key), ...row.values.slice(0, 8).map(([name, value]) => h('div', null, name, h('b', null, value)))]);
  }
}
// Values by one parameter. data: {title, value, x: {low, high, at}, points: [{key, kind, x: 0..1, y, given, strong}], log}
export class Scatter extends Drawing {
  constructor() { super(170); }

  update(data) {
    this.data = data;
    this.title.textContent = data.title;
    this.value.textContent = data.value || '';
    this.plot.setAttribute('aria-label', `${data.title}: ${data.points.length} trials. Arrow keys lead through them.`);
    data.points.sort((a, b) => a.x - b.x);
    this.places = data.points.map((_, i) => i);
    this.redraw();
  }

  draw(width, height) {
    const data = this.data, bottom = height - BOTTOM, right = width - RIGHT, to = data.log ? Math.log10 : (it) => it;
    const all = data.points.map((it) => to(it.y)), low = Math.min(...all), span = Math.max(...all) - low || Math.abs(low) || 1;
    const marks = data.log ? logTicks(low, low + span) : ticks(low, low + span, 5);
    this.x = (part) => LEFT + part * (right - LEFT);
    this.y = (value) => bottom - 6 - (to(value) - low) / span * (bottom - TOP - 12);
    this.cursor = s('g', { class: 'cursor' });
    const place = (at) => bottom - 6 - (at - low) / span * (bottom - TOP - 12);
    const dots = (kind) => s('path', { class: `dots stroke ${kind}`, d: data.points.filter((it) => it.kind === kind).map((it) => `M${this.x(it.x).toFixed(1)},${this.y(it.y).toFixed(1)}h0`).join('') });
    return s('svg', { width, height, viewBox: `0 0 ${width} ${height}`, 'aria-hidden': 'true' },
      marks.map((at) => [s('line', { class: 'gridline', x1: LEFT, x2: right, y1: place(at), y2: place(at) }), s('text', { x: LEFT - 7, y: place(at) + 4, 'text-anchor': 'end' }, number(data.log ? 10 ** at : at, 3))]),
      s('text', { x: LEFT, y: height - 6 }, data.low), s('text', { x: right, y: height - 6, 'text-anchor': 'end' }, data.high),
      ['failed', 'worse', 'k0', 'good'].map(dots), this.cursor);
  }

  point() { /* By both coordinates: see pointed. */ }

  pointed(event) {
    if (!this.x) return;
    const box = this.plot.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
    let best = -1, least = 40 * 40;
    this.data.points.forEach((it, i) => {
      const away = (this.x(it.x) - px) ** 2 + (this.y(it.y) - py) ** 2;
      if (away < least) { least = away; best = i; }
    });
    if (best < 0) this.leave(); else this.show(best);
  }

  show(i) {
    const it = this.data.points[i];
    if (!it) return;
    this.at = i;
    this.cursor.replaceChildren(s('circle', { class: `fill ${it.kind}`, cx: this.x(it.x), cy: this.y(it.y), r: 4.5 }));
    this.placeTip(this.x(it.x), this.y(it.y), [h('div', null, it.key), ...it.values.map(([name, value]) => h('div', null, name, h('b', null, value)))]);
  }
}
for (const kind of [Bars, Parallel, Scatter])
  kind.prototype.listen = function () {
    this.plot.addEventListener('pointermove', (event) => this.pointed(event));
    if (this.focused) {
      this.plot.addEventListener('focusin', (event) => this.focused(event));
      this.plot.addEventListener('focusout', () => this.leave());
    }
    return this;
  };
