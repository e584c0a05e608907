// sweeps.js: sweeps, and one: its trials as a table, as curves, and across what they were given.
import { h, get, badge, number, ago, duration, table, choice, empty, facts, part, plain, plural, part_of, numberOf } from '/dom.js';
import { Lines, Parallel, Scatter } from '/charts.js';
import { flat } from '/job.js';

const LINES_MAX = 120, SLICES_MAX = 6;

export class SweepsView {
  title() { return 'Sweeps'; }

  async load() {
    const got = await get('/sweeps');
    Object.assign(this, { sweeps: got.sweeps, folder: got.folder, loaded: true });
  }

  choose() {}

  act() {}

  period() { return 2000; }

  render() {
    const head = h('div', { class: 'top' }, h('div', null, h('h1', null, 'Sweeps'), h('p', { class: 'soft' }, 'In ', h('span', { class: 'path' }, this.folder))));
    if (this.sweeps.length === 0)
      return [head, empty('No sweeps here', 'A sweep tries many configurations of one trainer, gives up the weak ones early, and leaves a folder there.')];
    return [head, table('Sweeps', [{ title: 'Name' }, { title: 'Trials' }, { title: 'Best', kind: 'n' }, { title: 'Metric' }, { title: 'Scheduler', kind: 'phone-less' }, { title: 'Changed', kind: 'n' }],
      this.sweeps.map((it) => ({
        key: it.id, cells: [
          h('div', null, h('a', { class: 'name', href: `#/sweeps/${part_of(it.id)}` }, it.name), h('br'), h('small', null, it.trainer || '')),
          h('div', null, h('div', { class: 'progress' }, h('progress', { max: String(it.wanted || it.begun || 1), value: String(it.ended + it.failed), 'aria-label': 'Trials that have ended' }),
            h('span', { class: 'nw' }, `${number(it.ended + it.failed)} of ${number(it.wanted || it.begun)}`)),
          it.failed ? h('small', { class: 'failed' }, plural(it.failed, 'failure')) : ''),
          it.best === undefined ? '\u2013' : number(it.best_value, 5), h('span', null, it.metric || '', h('br'), h('small', null, it.goal || '')), it.scheduler || 'none', ago(it.written_at),
        ],
      })))];
  }
}

// Where a value lies on its axis, from 0 to 1.
function axisOf(name, values) {
  const numbers = values.map((value) => typeof value === 'number' ? value : NaN), all = numbers.filter(Number.isFinite);
  if (all.length === values.length && all.length > 0) {
    const low = Math.min(...all), high = Math.max(...all), log = low > 0 && high / low > 30;
    const to = (value) => log ? Math.log(value) : value, span = to(high) - to(low) || 1;
    return { name, low: number(low, 3), high: number(high, 3), at: numbers.map((value) => (to(value) - to(low)) / span) };
  }
  const words = [...new Set(values.map(plain))].sort();
  const place = (value) => words.length < 2 ? 0.5 : words.indexOf(plain(value)) / (words.length - 1);
  return { name, low: words[0] || '', high: words.length > 1 ? words[words.length - 1] : '', at: values.map(place) };
}

export class SweepView {
  constructor(id) {
    this.id = id;
    this.scale = 'linear';
    this.by = 'best';
    this.down = null;
    this.charts = { curves: new Lines(280), parallel: new Parallel().listen() };
    for (let i = 0; i < SLICES_MAX; i++) this.charts[`slice${i}`] = new Scatter().listen();
  }

  title() { return this.id; }

  slot(name) { return this.charts[name]?.element; }

  async load() {
    this.sweep = await get(`/sweeps/${part_of(this.id)}`);
    this.loaded = true;
  }

  period() { return this.sweep && this.sweep.running === 0 && this.sweep.ended + this.sweep.failed >= this.sweep.wanted ? 10000 : 1000; }

  choose(name, value) { this[name] = value; }

  sort(name) {
    this.down = this.by === name ? !this.down : false;
    this.by = name;
  }

  act() {}

  rank(trials, maximize) {
    const scored = trials.filter((it) => it.best !== undefined && it.state !== 'ERROR').sort((a, b) => maximize ? b.best - a.best : a.best - b.best);
    return new Map(scored.map((it, i) => [it.name, i]));
  }

  render() {
    const sweep = this.sweep, trials = sweep.trials, maximize = sweep.goal === 'maximize';
    const place = this.rank(trials, maximize), scored = place.size;
    const kindOf = (it) => it.state === 'ERROR' ? 'failed' : !place.has(it.name) ? 'worse' : place.get(it.name) === 0 ? 'good' : place.get(it.name) < scored / 4 ? 'k0' : 'worse';
    const drawn = [...trials].sort((a, b) => (place.get(b.name) ?? 1e9) - (place.get(a.name) ?? 1e9)).slice(-LINES_MAX);
    this.charts.curves.update({
      title: sweep.metric || 'metric', value: sweep.best === undefined ? '' : `best ${number(sweep.best_value, 5)}`, axis: 'reports', log: this.scale === 'log', about: `a curve for each of ${drawn.length} trials`,
      series: drawn.map((it) => ({
        name: it.name, kind: kindOf(it), faint: place.get(it.name) !== 0, strong: place.get(it.name) === 0,
        slots: it.points.map((value, i) => [1 + i * it.stride, 1 + i * it.stride, value === null ? NaN : value]),
      })),
    });
    const configs = trials.map((it) => flat(it.config)), names = [...new Set(configs.flatMap(Object.keys))];
    const share = new Map((sweep.importance || []).map((it) => [it.name, it.share]));
    const varied = names.filter((name) => new Set(configs.map((it) => plain(it[name]))).size > 1)
      .sort((a, b) => (share.get(b) ?? 0) - (share.get(a) ?? 0)).slice(0, 8);
    const rows = trials.map((it, i) => ({ it, config: configs[i] })).filter(({ it }) => it.best !== undefined);
    const axes = [...varied.map((name) => axisOf(name, rows.map(({ config }) => config[name]))), axisOf(sweep.metric || 'metric', rows.map(({ it }) => numberOf(it.best)))];
    this.charts.parallel.update({
      title: 'Across what they were given', value: plural(rows.length, 'trial'), axes,
      rows: rows.map(({ it, config }, i) => ({ key: it.name, kind: kindOf(it), strong: place.get(it.name) === 0, at: axes.map((axis) => axis.at[i]), values: [...varied.map((name) => [name, plain(config[name] ?? '')]), [sweep.metric, number(it.best, 5)]] }))
        .sort((a, b) => (place.get(b.key) ?? 1e9) - (place.get(a.key) ?? 1e9)),
    });
    const slices = rows.length > 1 ? varied.slice(0, SLICES_MAX) : [];
    slices.forEach((name, i) => this.slice(`slice${i}`, name, rows, axes[i], sweep.metric || 'metric', kindOf));
    const slot = (name) => h('div', { 'data-key': name, 'data-own': name, 'data-slot': name });
    return [
      h('div', { class: 'top' }, h('div', { class: 'grow' }, h('p', { class: 'kicker' }, h('a', { href: '#/sweeps' }, 'Sweeps')), h('h1', null, sweep.name)),
        choice('Scale', 'scale', [['linear', 'Linear'], ['log', 'Log']], this.scale)),
      facts([['Trials ended', number(sweep.ended + sweep.failed), `of ${number(sweep.wanted)}`], ['Running', number(sweep.running)], sweep.failed > 0 && ['Failed', number(sweep.failed)],
        ['Best', sweep.best === undefined ? '\u2013' : number(sweep.best_value, 5), sweep.metric], ['Goal', sweep.goal || '\u2013'], ['Searcher', sweep.searcher || '\u2013'], ['Scheduler', sweep.scheduler || 'none'], ['Seed', sweep.seed]]),
      part('Curves', h('ul', { class: 'legend' }, [['good', 'best'], ['k0', 'best quarter'], ['worse', 'others'], ...(sweep.failed > 0 ? [['failed', 'failed']] : [])].map(([kind, text]) =>
        h('li', null, h('span', { class: `swatch ${kind}` }), text))), slot('curves')), rows.length > 1 && varied.length > 0 ? h('section', { class: 'part', 'aria-label': 'Across what they were given' }, slot('parallel')) : '',
      share.size > 0 ? part('Which parameters mattered', h('span', { class: 'soft small' }, 'for being among the best tenth (PED-ANOVA), as shares of 1'),
        table('Which parameters mattered', [{ title: 'Parameter' }, { title: 'Share' }, { title: '', kind: 'n' }], [...share].slice(0, 12).map(([name, value]) => ({
          key: name, cells: [h('span', { class: 'name' }, name), h('div', { class: 'progress' }, h('progress', { class: 'share', max: '1', value: String(value), 'aria-label': `Share of ${name}` })), number(value, 3)],
        })))) : '',
      slices.length > 0 ? part('Each parameter by itself', '', h('div', { class: 'slices' }, slices.map((_, i) => slot(`slice${i}`)))) : '',
      this.renderTable(trials, configs, varied, place, maximize),
    ];
  }

  slice(chart, name, rows, axis, metric, kindOf) {
    const log = this.scale === 'log' && rows.every(({ it }) => numberOf(it.best) > 0);
    this.charts[chart].update({
      title: name, value: metric, low: axis.low, high: axis.high, log,
      points: rows.map(({ it, config }, i) => ({
        key: it.name, kind: kindOf(it), x: axis.at[i], y: numberOf(it.best), values: [[name, plain(config[name] ?? '')], [metric, number(it.best, 5)]],
      })).filter((it) => Number.isFinite(it.x) && Number.isFinite(it.y)),
    });
  }

  renderTable(trials, configs, varied, place, maximize) {
    const rows = trials.map((it, i) => ({ it, config: configs[i] }));
    const value = ({ it, config }) => this.by === 'best' ? (it.best === undefined ? Infinity : maximize ? -it.best : it.best) : this.by === 'reports' ? it.reports : this.by === 'time' ? it.elapsed_s : this.by === 'name' ? it.name : config[this.by.slice(1)];
    rows.sort((a, b) => { const x = value(a), y = value(b); return (x < y ? -1 : x > y ? 1 : 0) * (this.down ? -1 : 1); });
    const shown = rows.slice(0, 200);
    const columns = [{ title: 'Trial', sort: 'name' }, { title: 'State' }, { title: `Best ${this.sweep.metric || ''}`, kind: 'n', sort: 'best' }, { title: 'Reports', kind: 'n', sort: 'reports' }, { title: 'Time', kind: 'n', sort: 'time' },
      ...varied.map((name) => ({ title: name, kind: 'n', sort: `=${name}` }))];
    return part('Trials', rows.length > shown.length ? h('span', { class: 'soft small' }, `the first ${shown.length} of ${number(rows.length)} in this order`) : '',
      table('Trials', columns, shown.map(({ it, config }) => ({
        key: it.name, picked: place.get(it.name) === 0, cells: [
          h('span', null, it.name, place.get(it.name) === 0 ? [' ', h('span', { class: 'tag' }, 'best')] : ''), h('span', { title: it.error || null }, badge(it.state)),
          it.best === undefined ? '\u2013' : number(it.best, 5), number(it.reports), duration(it.elapsed_s), ...varied.map((name) => plain(config[name] ?? '')),
        ],
      })), { sorted: this.by, down: this.down }));
  }
}
