// report.js: the drawings and the table of a sweep's report, from the data in the page.
(function () {
  'use strict';
  const data = JSON.parse(document.getElementById('data').textContent);
  const NS = 'http://www.w3.org/2000/svg', SHADES = 8;
  const POINTS_MAX = 2000, SLICE_MAX = 1000, LINES_MAX = 400, AXES_MAX = 10, CELLS = 28;
  const dims = data.dims, goals = data.goals, narrow = () => window.innerWidth < 600;
  const trials = data.trials.map((t, index) => ({
    index, number: t[0], state: data.states[t[1]], values: t[2], value: t[2][0], reports: t[3],
    elapsed: t[4], began: t[5], ended: t[6], x: t[7], name: t[8], error: t[9],
  }));
  const maximize = goals[0] === 'maximize', metric = data.metrics[0] || 'value';
  const better = (a, b) => maximize ? a > b : a < b;
  const isNumber = (it) => typeof it === 'number' && Number.isFinite(it);
  const violating = new Set(data.violating); // Like those that failed, they are no best ones.
  const counts = (t) => t.state !== 'ERROR' && !violating.has(t.index);
  const scored = trials.filter((t) => isNumber(t.value) && counts(t));
  const ranked = [...scored].sort((a, b) => better(a.value, b.value) ? -1
    : better(b.value, a.value) ? 1 : a.number - b.number);
  ranked.forEach((t, i) => { t.rank = i; });
  const best = ranked[0];
  const shade = (t) => Math.min(SHADES - 1, Math.floor(SHADES * (1 - t.rank / ranked.length)));
  let log = false; // Of values.
  const redraws = [];

  // ---- text

  function figure(value) {
    if (!isNumber(value)) return '\u2013';
    if (Number.isInteger(value) && Math.abs(value) < 1e7) return String(value);
    return String(Number(value.toPrecision(5)));
  }
  function seconds(s) {
    if (!isNumber(s)) return '\u2013';
    if (s < 1) return `${Math.round(1000 * s)} ms`;
    if (s < 100) return `${Number(s.toPrecision(3))} s`;
    if (s < 3600) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
    return `${Math.floor(s / 3600)} h ${Math.floor(s % 3600 / 60)} min`;
  }
  const short = (text, most) => text.length > most ? `${text.slice(0, most - 1)}\u2026` : text;
  const plain = (json) => json.startsWith('"') ? JSON.parse(json) : json;
  const called = (t) => `Trial ${t.number}`;
  const many = (count, one) => `${count.toLocaleString('en')} ${one}${count === 1 ? '' : 's'}`;
  function given(t, dim) {
    const at = t.x[dim];
    if (!isNumber(at)) return '\u2013';
    return dims[dim].texts ? plain(dims[dim].texts[at]) : figure(at);
  }

  // ---- elements

  function el(name, attributes, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {}))
      if (value !== undefined && value !== null) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }
  function svg(parent, name, attributes, text) {
    const made = parent.appendChild(document.createElementNS(NS, name));
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    if (text !== undefined) made.textContent = text;
    return made;
  }
  const one = (number) => number.toFixed(1);

  // So many of a list, evenly; `first` of them are its beginning.
  function some(list, most, first) {
    if (list.length <= most) return list;
    const kept = list.slice(0, first || 0), rest = list.slice(first || 0);
    const every = rest.length / (most - kept.length);
    for (let i = 0; kept.length < most; i++) kept.push(rest[Math.floor(i * every)]);
    return kept;
  }

  // ---- scales: at() from 0 to 1, and marks

  function step(span, parts) {
    const rough = span / parts, ten = 10 ** Math.floor(Math.log10(rough)), of = rough / ten;
    return ten * (of <= 1 ? 1 : of <= 2 ? 2 : of <= 5 ? 5 : 10);
  }
  function numbers(low, high, logged, room, whole) {
    const to = logged ? Math.log10 : (v) => v;
    let a = to(low), b = to(high);
    if (!(b > a)) { const half = Math.abs(a) * 0.1 || 1; a -= half; b += half; }
    const margin = (b - a) * room;
    a -= margin; b += margin;
    return {
      at: (v) => (to(v) - a) / (b - a), log: logged, write: figure,
      back: (u) => { const v = a + u * (b - a); return logged ? 10 ** v : v; },
      marks(parts) {
        const found = [];
        if (logged) {
          const each = Math.max(1, Math.ceil((b - a) / parts));
          for (let d = Math.ceil(a / each) * each; d <= b; d += each) found.push(10 ** d);
          if (found.length < 3)
            for (let d = Math.floor(a); d <= b; d++)
              for (const part of [2, 5]) {
                const v = part * 10 ** d;
                if (Math.log10(v) >= a && Math.log10(v) <= b) found.push(v);
              }
          if (found.length > 1) return found.sort((p, q) => p - q);
          found.length = 0;
        }
        const from = logged ? 10 ** a : a, up = logged ? 10 ** b : b;
        let width = step(up - from, parts);
        if (whole) width = Math.max(1, width);
        for (let i = Math.ceil(from / width); i * width <= up * (1 + 1e-12); i++)
          found.push(Number((i * width).toPrecision(12)));
        return found;
      },
    };
  }
  function choices(texts) {
    const words = texts.map(plain);
    return {
      at: (v) => (v + 0.5) / words.length, back: (u) => Math.floor(u * words.length),
      write: (v) => short(words[Math.max(0, Math.min(words.length - 1, Math.round(v)))], 14),
      marks: () => words.map((_, i) => i), choice: true, width: 1 / words.length,
    };
  }
  function scaleOf(dim) {
    if (dim.texts) return choices(dim.texts);
    return numbers(dim.low, dim.high, dim.log, 0.03, dim.kind === 'integer');
  }

  // An axis of values. One value far away must not press all others together: beyond a limit on the
  // worse side they are drawn at its edge.
  function valueScale(values, worseUp) {
    const sorted = values.filter(isNumber).sort((a, b) => a - b);
    if (sorted.length === 0) return numbers(0, 1, false, 0.05);
    let low = sorted[0], high = sorted[sorted.length - 1], beyond = 0;
    const at = (q) => sorted[Math.round(q * (sorted.length - 1))];
    const logged = log && low > 0;
    if (!logged && sorted.length >= 10 && worseUp && high > at(0.9) + 3 * (at(0.9) - low)) {
      high = at(0.9) + (at(0.9) - low) * 0.5;
      beyond = sorted.filter((v) => v > high).length;
    } else if (!logged && sorted.length >= 10 && !worseUp && low < at(0.1) - 3 * (high - at(0.1))) {
      low = at(0.1) - (high - at(0.1)) * 0.5;
      beyond = sorted.filter((v) => v < low).length;
    }
    return Object.assign(numbers(low, high, logged, 0.05), { beyond, worseUp });
  }
  const hold = (u) => Math.max(0, Math.min(1, u));

  // ---- a drawing

  // Draws into `place` at its width, again when that changes. `make(width)` returns what is drawn:
  // {title, about, height, x, y, xName, draw(group, px, py), points: [{x, y, t, tip}]}.
  function plot(place, make) {
    let width = 0, shown = -1, now = null;
    const tip = el('div', { class: 'tip', hidden: '' });
    const frame = el('div');
    place.append(frame, tip);
    place.tabIndex = 0;
    place.setAttribute('role', 'group');
    function hide() {
      tip.hidden = true;
      place.querySelectorAll('.ring').forEach((it) => it.remove());
    }
    function show(index) {
      hide();
      const point = now.points[index];
      if (!point) return;
      shown = index;
      svg(now.root, 'circle', { class: 'ring', r: 6, cx: one(point.px), cy: one(point.py) });
      tip.textContent = '';
      tip.append(el('b', null, point.tip[0]));
      point.tip.slice(1).forEach((text, i) => tip.append(...(i ? [el('br')] : []), text));
      tip.hidden = false;
      const half = tip.offsetWidth / 2, box = now.root.getBoundingClientRect();
      const base = place.getBoundingClientRect();
      const left = box.left - base.left + point.px;
      tip.style.left = `${Math.max(half, Math.min(base.width - half, left))}px`;
      tip.style.top = `${box.top - base.top + point.py}px`;
    }
    function draw() {
      const wide = Math.floor(place.clientWidth -
        parseFloat(getComputedStyle(place).paddingLeft) * 2);
      if (wide <= 0) return;
      width = wide;
      hide();
      shown = -1;
      frame.textContent = '';
      now = make(width);
      place.setAttribute('aria-label', `${now.title}. Arrow keys lead through its points.`);
      const yMarks = now.y.marks(Math.max(2, now.height / 45));
      const labels = yMarks.map((v) => now.y.write(v));
      const left = Math.min(width * 0.35, 14 + 7 * Math.max(...labels.map((s) => s.length), 1));
      const top = now.yName ? 24 : 10, right = 12, bottom = now.xName ? 40 : 24;
      const w = width - left - right, h = now.height - top - bottom;
      const px = (v) => left + w * hold(now.x.at(v)), py = (v) => top + h * (1 - hold(now.y.at(v)));
      const root = svg(frame, 'svg', {
        viewBox: `0 0 ${width} ${now.height}`, width, height: now.height, role: 'img',
        'aria-label': `${now.title}. ${now.about}`,
      });
      now.root = root;
      yMarks.forEach((v, i) => {
        const y = top + h * (1 - now.y.at(v));
        svg(root, 'line', { class: 'grid', x1: left, x2: left + w, y1: one(y), y2: one(y) });
        svg(root, 'text', { class: 'y', x: left - 7, y: one(y + 4) }, labels[i]);
      });
      svg(root, 'line', { class: 'axis', x1: left, x2: left + w, y1: top + h, y2: top + h });
      xMarks(root, now, left, w, top + h);
      if (now.xName)
        svg(root, 'text', { class: 'x', x: left + w / 2, y: now.height - 4 }, now.xName);
      if (now.yName) svg(root, 'text', { x: left, y: 14 }, `\u2191 ${now.yName}`);
      now.draw(root, px, py, { left, top, w, h });
      if (now.y.beyond)
        svg(root, 'text', { class: 'y halo', x: left + w, y: now.y.worseUp ? top + 14 : top + h - 6 },
          `${now.y.worseUp ? '\u2191' : '\u2193'} ${now.y.beyond} beyond the scale`);
      now.points.forEach((p) => {
        p.px = px(p.x) + (p.dx || 0) * w;
        p.py = py(p.y) - (p.dy || 0) * h;
      });
      now.points.sort((a, b) => a.px - b.px || a.py - b.py);
    }
    function nearest(event) {
      const box = now.root.getBoundingClientRect(), x = event.clientX - box.left;
      const y = event.clientY - box.top;
      let found = -1, least = 60 * 60;
      now.points.forEach((p, i) => {
        const away = (p.px - x) ** 2 + (p.py - y) ** 2;
        if (away < least) { least = away; found = i; }
      });
      if (found >= 0) show(found); else hide();
    }
    frame.addEventListener('pointermove', nearest);
    frame.addEventListener('pointerdown', nearest);
    frame.addEventListener('pointerleave', hide);
    place.addEventListener('blur', hide);
    place.addEventListener('keydown', (event) => {
      const count = now ? now.points.length : 0;
      const from = shown < 0 ? { ArrowLeft: count, ArrowRight: -1 }[event.key] : shown;
      const to = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: count - 1 }[event.key];
      if (event.key === 'Escape') hide();
      if (to === undefined || count === 0) return;
      event.preventDefault();
      show(Math.max(0, Math.min(count - 1, to)));
    });
    redraws.push(draw);
    new ResizeObserver(() => { if (Math.abs(place.clientWidth - width) > 40) draw(); })
      .observe(place);
    draw();
  }
  function xMarks(root, now, left, w, base) {
    const marks = now.x.marks(Math.max(2, w / 80));
    let last = -Infinity;
    for (const v of marks) {
      const x = left + w * now.x.at(v), text = now.x.write(v), half = 3.6 * text.length;
      svg(root, 'line', { class: 'axis', x1: one(x), x2: one(x), y1: base, y2: base + 4 });
      if (x - half < last + 6 || x + half > left + w + 16) continue;
      svg(root, 'text', { class: 'x', x: one(x), y: base + 18 }, text);
      last = x + half;
    }
  }

  // One path for all points of a kind: a line without a length, whose round ends show it.
  function dots(root, kind, list) {
    if (list.length === 0) return;
    svg(root, 'path', {
      class: `dots ${kind}`, d: list.map(([x, y]) => `M${one(x)},${one(y)}h0`).join(''),
    });
  }
  function tipOf(t, ...more) {
    return [called(t), `${metric} ${figure(t.value)}`, ...more];
  }
  // Points by their shade, the best ones above, the best of all ringed.
  function shaded(root, list, small) {
    const groups = Array.from({ length: SHADES }, () => []);
    list.forEach(([x, y, t]) => groups[shade(t)].push([x, y]));
    groups.forEach((group, i) => dots(root, `s${i}${small ? ' small' : ''}`, group));
    dots(root, `s-best${small ? ' small' : ''}`, list.filter(([, , t]) => t === best));
  }

  // ---- history

  function history(place) {
    const shown = some(ranked, POINTS_MAX, 100);
    const running = [];
    let top = null;
    for (const t of scored)
      if (top === null || better(t.value, top.value)) running.push(top = t);
    plot(place, () => {
      const x = numbers(trials[0].number, trials[trials.length - 1].number, false, 0.01, true);
      const y = valueScale(scored.map((t) => t.value), !maximize);
      return {
        title: `${metric} of each trial, and the best so far`, xName: 'trial', x, y, height: 280,
        about: `${many(scored.length, 'trial')}; the best is ${figure(best.value)} of trial ` +
          `${best.number}.${y.beyond ? ` ${y.beyond} are beyond the scale.` : ''}`,
        points: shown.map((t) => ({ x: t.number, y: t.value, t, tip: tipOf(t, t.state) })),
        draw(root, px, py) {
          const place = (t) => [px(t.number), py(t.value)];
          const size = shown.length > 400 ? ' small' : '', stopped = (t) => t.state === 'STOPPED';
          dots(root, `s-faint${size}`, shown.filter(stopped).map(place));
          dots(root, `s3${size}`, shown.filter((t) => !stopped(t)).map(place));
          const path = running.map((t, i) => i === 0 ? `M${one(px(t.number))},${one(py(t.value))}`
            : `H${one(px(t.number))}V${one(py(t.value))}`).join('');
          svg(root, 'path', {
            class: 'step', d: `${path}H${one(px(trials[trials.length - 1].number))}`,
          });
        },
      };
    });
    say('history', shown.length, scored.length);
  }
  function say(id, drawn, all) {
    const note = document.getElementById(`note-${id}`);
    if (note && drawn < all)
      note.textContent = `${many(drawn, 'trial')} of ${all.toLocaleString('en')} are drawn: ` +
        'the best, and others evenly.';
  }

  // ---- slices

  const order = dims.map((_, i) => i).sort((a, b) => data.importance[b] - data.importance[a]);
  const jitter = (t) => ((t.number * 0.618034) % 1 - 0.5) * 0.6;

  function slices(place) {
    const shown = some(ranked, SLICE_MAX, 100);
    for (const dim of order.slice(0, 24)) {
      const cell = el('div', { class: 'cell' });
      place.append(el('figure', null, el('figcaption', null, el('b', null, dims[dim].name),
        el('span', null, dims[dim].log ? 'logarithmic' : dims[dim].texts ? 'choice' : '')), cell));
      const list = shown.filter((t) => isNumber(t.x[dim]));
      plot(cell, () => {
        const x = scaleOf(dims[dim]), y = valueScale(scored.map((t) => t.value), !maximize);
        const aside = (t) => x.choice ? jitter(t) * x.width : 0;
        return {
          title: `${metric} by ${dims[dim].name}`, x, y, height: 200,
          about: `${many(list.length, 'trial')}; the best has ${given(best, dim)}.`,
          points: list.map((t) => ({
            x: t.x[dim], dx: aside(t), y: t.value, t,
            tip: tipOf(t, `${dims[dim].name} ${given(t, dim)}`),
          })),
          draw(root, px, py, box) {
            shaded(root, list.map((t) => [px(t.x[dim]) + aside(t) * box.w, py(t.value), t]), true);
          },
        };
      });
    }
    say('slices', shown.length, scored.length);
  }

  // ---- the two most important together

  // How good it is about there: ranks weighted by the inverse square of distances.
  function field(list, u, v) {
    let sum = 0, weights = 0;
    for (const [x, y, t] of list) {
      const weight = 1 / ((x - u) ** 2 + (y - v) ** 2 + 1e-4) ** 1.5;
      sum += weight * (1 - t.rank / ranked.length);
      weights += weight;
    }
    return sum / weights;
  }
  function landscape(place, across, up) {
    const shown = some(ranked, SLICE_MAX, 100)
      .filter((t) => isNumber(t.x[across]) && isNumber(t.x[up]));
    plot(place, (width) => {
      const x = scaleOf(dims[across]), y = scaleOf(dims[up]);
      const where = shown.map((t) => [
        hold(x.at(t.x[across]) + (x.choice ? jitter(t) * x.width : 0)),
        hold(y.at(t.x[up]) + (y.choice ? jitter(t) * y.width : 0)), t]);
      return {
        title: `${dims[across].name} and ${dims[up].name}`, xName: `${dims[across].name} \u2192`, yName: dims[up].name, x, y,
        height: Math.min(420, Math.max(280, width * 0.5)),
        about: `Across ${dims[across].name}, upwards ${dims[up].name}; the best trial has ` +
          `${given(best, across)} and ${given(best, up)}.`,
        points: where.map(([u, v, t]) => ({
          x: t.x[across], dx: u - hold(x.at(t.x[across])), y: t.x[up], t,
          dy: v - hold(y.at(t.x[up])),
          tip: tipOf(t, `${dims[across].name} ${given(t, across)}`,
            `${dims[up].name} ${given(t, up)}`),
        })),
        draw(root, px, py, box) {
          const near = some(where, 300, 50), cells = x.choice ? dims[across].texts.length : CELLS;
          const rows = y.choice ? dims[up].texts.length : Math.round(CELLS * 0.6);
          const w = box.w / cells, h = box.h / rows;
          for (let i = 0; i < cells && near.length > 7; i++)
            for (let k = 0; k < rows; k++) {
              const good = field(near, (i + 0.5) / cells, (k + 0.5) / rows);
              svg(root, 'rect', {
                class: `f${Math.min(SHADES - 1, Math.floor(SHADES * good))}`, width: one(w + 0.5),
                height: one(h + 0.5), x: one(box.left + i * w), y: one(box.top + (rows - 1 - k) * h),
              });
            }
          for (const [u, v, t] of where.slice().reverse())
            svg(root, 'circle', {
              class: t === best ? 'ring' : 'ringed', r: t === best ? 6 : 2.4,
              cx: one(box.left + u * box.w), cy: one(box.top + (1 - v) * box.h),
            });
        },
      };
    });
  }

  // ---- curves

  function curves(place) {
    const drawn = data.curves.map(([index, stride, points]) => ({ t: trials[index], points,
      at: (i) => 1 + i * stride }));
    const all = drawn.flatMap((c) => c.points);
    const least = drawn.map((c) => c.points.find(isNumber)).filter(isNumber);
    plot(place, () => {
      const last = Math.max(...drawn.map((c) => c.at(c.points.length - 1)));
      const x = numbers(1, last, false, 0.01, true);
      const y = valueScale(all.length < 20000 ? all : least, !maximize);
      return {
        title: `${metric} by report`, xName: 'report', x, y, height: 320,
        about: `${many(drawn.length, 'curve')} of ${many(data.reporting, 'trial')}.`,
        points: drawn.flatMap((c) => c.points.map((v, i) => ({
          x: c.at(i), y: v, t: c.t, tip: tipOf(c.t, `report ${c.at(i)}: ${figure(v)}`),
        })).filter((p) => isNumber(p.y))),
        draw(root, px, py) {
          for (const kind of ['s-faint', 's4', 's-best'])
            svg(root, 'path', {
              class: `lines ${kind}`, d: drawn.filter((c) => kind === (c.t === best ? 's-best'
                : c.t.state === 'STOPPED' || c.t.state === 'ERROR' ? 's-faint' : 's4'))
                .map((c) => pathOf(c, px, py)).join(''),
              ...(kind === 's-best' ? { 'stroke-width': 2.4, style: 'opacity:1' } : {}),
            });
        },
      };
    });
    say('curves', drawn.length, data.reporting);
  }
  function pathOf(curve, px, py) {
    let joined = false, path = '';
    curve.points.forEach((v, i) => {
      if (!isNumber(v)) return;
      path += `${joined ? 'L' : 'M'}${one(px(curve.at(i)))},${one(py(v))}`;
      if (!joined && curve.points.length === 1) path += 'h0';
      joined = true;
    });
    return path;
  }

  // ---- several objectives

  function front(place) {
    const list = trials.filter((t) => isNumber(t.values[0]) && isNumber(t.values[1]) &&
      counts(t));
    const first = data.front.map((i) => trials[i]).sort((a, b) => a.values[0] - b.values[0]);
    const among = new Set(first), shown = some([...first, ...list.filter((t) => !among.has(t))],
      POINTS_MAX, Math.min(first.length, POINTS_MAX / 2));
    plot(place, () => {
      const worse = (i) => goals[i] !== 'maximize';
      const x = valueScale(list.map((t) => t.values[0]), worse(0));
      const y = valueScale(list.map((t) => t.values[1]), worse(1));
      return {
        title: `${data.metrics[0]} and ${data.metrics[1]}`, x, y, height: 340,
        xName: `${data.metrics[0] || 'value 1'}, to ${goals[0]} \u2192`,
        yName: `${data.metrics[1] || 'value 2'}, to ${goals[1]}`,
        about: `${many(first.length, 'trial')} of ${list.length} are on the front.`,
        points: shown.map((t) => ({
          x: t.values[0], y: t.values[1], t,
          tip: [called(t), ...t.values.map((v, i) => `${data.metrics[i] || i + 1} ${figure(v)}`)],
        })),
        draw(root, px, py) {
          const place = (t) => [px(t.values[0]), py(t.values[1])];
          dots(root, 's3 small', shown.filter((t) => !among.has(t)).map(place));
          if (goals.length === 2)
            svg(root, 'path', { class: 'step', d: first.map((t, i) => `${i ? 'L' : 'M'}${
              place(t).map(one).join(',')}`).join('') });
          dots(root, 's-best', first.map(place));
        },
      };
    });
  }

  // ---- when they ran

  function timeline(place) {
    const list = trials.filter((t) => isNumber(t.began) && isNumber(t.ended))
      .sort((a, b) => a.began - b.began);
    const zero = list[0].began, lanes = [];
    for (const t of list) {
      t.lane = lanes.findIndex((end) => end <= t.began);
      if (t.lane < 0) t.lane = lanes.push(0) - 1;
      lanes[t.lane] = t.ended;
    }
    const shown = some(list, POINTS_MAX);
    plot(place, () => {
      const end = Math.max(...list.map((t) => t.ended)) - zero;
      const x = Object.assign(numbers(0, end || 1, false, 0.01), { write: seconds });
      const y = Object.assign(numbers(0, lanes.length, false, 0), { marks: () => [] });
      return {
        title: 'When trials ran', xName: 'since the first began', x, y,
        height: Math.min(420, 60 + lanes.length * 14),
        about: `${many(list.length, 'trial')} in ${seconds(end)}, at most ${lanes.length} at once.`,
        points: shown.map((t) => ({
          x: (t.began + t.ended) / 2 - zero, y: lanes.length - t.lane - 0.5, t,
          tip: tipOf(t, `${t.state}, ${seconds(t.ended - t.began)}`),
        })),
        draw(root, px, py, box) {
          const high = box.h / lanes.length;
          for (const t of shown)
            svg(root, 'rect', {
              class: `bar-state ${t.state}`, x: one(px(t.began - zero)),
              y: one(box.top + t.lane * high + high * 0.08), height: one(high * 0.84), rx: 1.5,
              width: one(Math.max(1.2, px(t.ended - zero) - px(t.began - zero) - 0.6)),
            });
        },
      };
    });
  }

  // ---- parallel coordinates

  const picked = new Map(); // Of an axis: [low, high] of what it lets through, from 0 to 1.
  let pickedChanged = () => {};
  const letsThrough = (t) => [...picked].every(([axis, [low, high]]) => {
    const at = axis.place(t);
    return at !== null && at >= low - 1e-9 && at <= high + 1e-9;
  });

  function parallel(place) {
    const shown = some(ranked, LINES_MAX, 100).slice().reverse();
    const axes = order.slice(0, AXES_MAX).map((dim) => {
      const scale = scaleOf(dims[dim]);
      return { name: dims[dim].name, scale,
        place: (t) => isNumber(t.x[dim]) ? hold(scale.at(t.x[dim])) : null };
    });
    const all = scored.map((t) => t.value), height = 340, top = 44, foot = 34;
    const value = { name: metric, scale: valueScale(all, !maximize), value: true };
    value.place = (t) => hold(value.scale.at(t.value));
    axes.push(value);
    const scroll = el('div', { class: 'scroll' });
    place.append(scroll);
    const y = (at) => at === null ? height - 10 : top + (height - top - foot) * (1 - at);
    let root, lines, width = 0;

    function path(list, x) {
      return list.map((t) => axes.map((axis, i) =>
        `${i ? 'L' : 'M'}${one(x(i))},${one(y(axis.place(t)))}`).join('')).join('');
    }
    function drawLines(x) {
      lines.textContent = '';
      const on = shown.filter(letsThrough);
      if (on.length < shown.length)
        svg(lines, 'path', { class: 'lines off', d: path(shown.filter((t) => !letsThrough(t)), x) });
      for (let i = 0; i < SHADES; i++)
        svg(lines, 'path', { class: `lines s${i}`, d: path(on.filter((t) => shade(t) === i), x) });
      if (on.includes(best))
        svg(lines, 'path', { class: 'lines s-best', style: 'opacity:1;stroke-width:2.2',
          d: path([best], x) });
    }
    function draw() {
      width = Math.max(place.clientWidth - 26, axes.length * (narrow() ? 74 : 84));
      value.scale = valueScale(all, !maximize);
      const left = 46, x = (i) => left + (width - 2 * left) * i / Math.max(1, axes.length - 1);
      scroll.textContent = '';
      root = svg(scroll, 'svg', {
        viewBox: `0 0 ${width} ${height}`, width, height, role: 'group',
        'aria-label': `Parallel coordinates of ${many(shown.length, 'trial')} over ${
          axes.map((axis) => axis.name).join(', ')}. Each axis has two handles.`,
      });
      lines = svg(root, 'g');
      axes.forEach((axis, i) => drawAxis(axis, x(i), () => drawLines(x)));
      drawLines(x);
    }
    function drawAxis(axis, x, changed) {
      const group = svg(root, 'g');
      svg(group, 'line', { class: 'axis', x1: one(x), x2: one(x), y1: y(1), y2: y(0) });
      svg(group, 'text', { class: 'x axis-name', x: one(x), y: 16 }, short(axis.name, 13));
      axis.scale.marks(5).forEach((v) => {
        const at = y(axis.scale.at(v));
        svg(group, 'text', { class: 'halo', x: one(x + 6), y: one(at + 4) }, axis.scale.write(v));
      });
      if (shown.some((t) => axis.place(t) === null))
        svg(group, 'text', { class: 'halo', x: one(x + 6), y: y(null) + 4 }, 'not set');
      const grip = svg(group, 'line', { class: 'grip', x1: one(x), x2: one(x), y1: y(1), y2: y(0) });
      const handles = ['from', 'to'].map((which, side) => handle(axis, group, x, which, side, changed));
      const move = (event) => {
        const box = root.getBoundingClientRect();
        const at = hold(1 - (event.clientY - box.top - y(1)) / (y(0) - y(1)));
        grip.side = grip.side ?? (Math.abs(at - handles[0].at()) <= Math.abs(at - handles[1].at())
          ? 0 : 1);
        handles[grip.side].to(at);
      };
      for (const it of [grip, ...handles.map((one) => one.element)]) {
        it.addEventListener('pointerdown', (event) => {
          event.preventDefault();
          grip.side = it === grip ? undefined : handles.findIndex((one) => one.element === it);
          it.setPointerCapture(event.pointerId);
          it.moving = true;
          if (it === grip) move(event);
        });
        it.addEventListener('pointermove', (event) => { if (it.moving) move(event); });
        it.addEventListener('pointerup', () => { it.moving = false; });
        it.addEventListener('pointercancel', () => { it.moving = false; });
      }
    }
    function handle(axis, group, x, which, side, changed) {
      const element = svg(group, 'g', {
        class: 'handle', tabindex: 0, role: 'slider', 'aria-orientation': 'vertical',
        'aria-label': `${axis.name}, ${which}`, 'aria-valuemin': 0, 'aria-valuemax': 100,
      });
      const rect = svg(element, 'rect', { width: 16, height: 7, rx: 3, x: one(x - 8) });
      const at = () => (picked.get(axis) || [0, 1])[side];
      function look() {
        rect.setAttribute('y', one(y(at()) - (side ? 7 : 0)));
        element.setAttribute('aria-valuenow', Math.round(100 * at()));
        element.setAttribute('aria-valuetext', axis.scale.write(axis.scale.back(at())));
        element.classList.toggle('moved', at() !== side);
      }
      function to(value) {
        const range = [...(picked.get(axis) || [0, 1])];
        range[side] = side ? Math.max(value, range[0]) : Math.min(value, range[1]);
        if (range[0] <= 0.005 && range[1] >= 0.995) picked.delete(axis); else picked.set(axis, range);
        look();
        changed();
        pickedChanged();
      }
      element.addEventListener('keydown', (event) => {
        const by = { ArrowUp: 0.05, ArrowRight: 0.05, ArrowDown: -0.05, ArrowLeft: -0.05,
          PageUp: 0.2, PageDown: -0.2, Home: -1, End: 1 }[event.key];
        if (event.key === 'Escape') to(side);
        if (by === undefined) return;
        event.preventDefault();
        to(hold(at() + by));
      });
      look();
      return { element, at, to };
    }
    redraws.push(draw);
    new ResizeObserver(() => { if (Math.abs(place.clientWidth - 26 - width) > 60 &&
      place.clientWidth - 26 > axes.length * 84) draw(); }).observe(place);
    draw();
    say('parallel', shown.length, scored.length);
    if (order.length > AXES_MAX)
      document.getElementById('note-parallel').append(
        ` The ${AXES_MAX} most important of ${order.length} parameters have axes.`);
  }

  // ---- the table

  function table(place) {
    const head = place.querySelector('thead tr'), body = place.querySelector('tbody');
    const count = document.getElementById('table-count'), more = document.getElementById('more');
    const find = document.getElementById('find'), state = document.getElementById('state');
    let by = 'value', down = false, most = 50;
    const columns = [
      ['number', 'Trial', (t) => t.number], ['state', 'State', (t) => t.state],
      ...goals.map((_, i) => [i === 0 ? 'value' : `value${i}`, data.metrics[i] || 'Value',
        (t) => t.values[i], 'n', goals[i] === 'maximize']),
      ['reports', 'Reports', (t) => t.reports, 'n'], ['elapsed', 'Time', (t) => t.elapsed, 'n'],
      ...dims.map((dim, i) => [`x${i}`, dim.name,
        (t) => isNumber(t.x[i]) && dim.texts ? plain(dim.texts[t.x[i]]) : t.x[i], 'n']),
    ];
    head.textContent = '';
    for (const [key, title, , kind] of columns) {
      const button = el('button', { type: 'button' }, title);
      button.addEventListener('click', () => {
        down = by === key ? !down : false;
        by = key;
        fill();
      });
      head.append(el('th', { scope: 'col', class: kind, 'data-key': key }, button));
    }
    function texts(t) {
      return [called(t), t.name || '', t.state, t.error || '', ...dims.map((dim, i) =>
        `${dim.name}=${given(t, i)}`)].join(' ').toLowerCase();
    }
    function fill() {
      const column = columns.find(([key]) => key === by), value = column[2];
      const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
      const list = trials.filter((t) => (state.value === '' || t.state === state.value) &&
        (picked.size === 0 || (t.rank !== undefined && letsThrough(t))) &&
        (words.length === 0 || words.every((word) => texts(t).includes(word))));
      const sign = (down ? -1 : 1) * (column[4] ? -1 : 1);
      const lacks = (v) => v === null || v === undefined;
      list.sort((a, b) => {
        const x = value(a), y = value(b);
        if (lacks(x) || lacks(y)) return lacks(x) - lacks(y) || a.number - b.number;
        return (x < y ? -1 : x > y ? 1 : 0) * sign || a.number - b.number;
      });
      head.querySelectorAll('th').forEach((th) => th.dataset.key === by
        ? th.setAttribute('aria-sort', (sign < 0) ? 'descending' : 'ascending')
        : th.removeAttribute('aria-sort'));
      body.textContent = '';
      body.append(...list.slice(0, most).map(row));
      count.textContent = list.length < trials.length
        ? `${many(list.length, 'trial')} of ${trials.length.toLocaleString('en')}`
        : many(list.length, 'trial');
      more.hidden = list.length <= most;
    }
    function row(t) {
      return el('tr', { class: t === best ? 'best' : null },
        el('th', { scope: 'row', class: 'nw', title: t.name },
          String(t.number), t === best ? ' \u2605' : ''),
        el('td', null, el('span', { class: `state ${t.state}`, title: t.error }, t.state)),
        ...t.values.map((v) => el('td', { class: 'n' }, figure(v))),
        el('td', { class: 'n' }, String(t.reports)),
        el('td', { class: 'n' }, t.elapsed > 0 ? seconds(t.elapsed) : '\u2013'),
        ...dims.map((_, i) => el('td', { class: 'n' }, short(given(t, i), 24))));
    }
    find.addEventListener('input', fill);
    state.addEventListener('change', fill);
    more.addEventListener('click', () => { most += 200; fill(); });
    pickedChanged = fill;
    fill();
  }

  // ---- the page

  const at = (id) => document.getElementById(id);
  function draw(id, how, ...more) {
    const place = at(`plot-${id}`);
    if (place) how(place, ...more);
  }
  if (best) {
    draw('history', history);
    if (dims.length > 0) {
      draw('parallel', parallel);
      draw('slices', slices);
    }
    if (dims.length > 1) draw('landscape', landscape, order[0], order[1]);
    draw('front', front);
  }
  if (data.curves.length > 0) draw('curves', curves);
  draw('timeline', timeline);
  table(at('trials'));
  document.querySelectorAll('input[name=scale]').forEach((it) => it.addEventListener('change', () => {
    log = at('scale-log').checked;
    redraws.forEach((again) => again());
  }));
  const copy = at('copy');
  if (copy)
    copy.addEventListener('click', async () => {
      const text = at('best-json').textContent;
      try {
        await navigator.clipboard.writeText(text);
        copy.textContent = 'Copied';
      } catch {
        getSelection().selectAllChildren(at('best-json'));
        copy.textContent = 'Selected: press Ctrl+C';
      }
      setTimeout(() => { copy.textContent = 'Copy'; }, 2000);
    });
})();
