// others.js: routes of services, and the comparison of chosen runs.
import { h, get, number, duration, table, facts, choice, empty, plain, part, part_of, Failure, numberOf } from '/dom.js';
import { Lines, Histogram } from '/charts.js';
import { stateOf } from '/jobs.js';
import { flat } from '/job.js';
import { app } from '/app.js';

// The value that a part of all stay below, of bounds and how many were no longer.
function percentile(bounds, part) {
  const all = bounds.length ? bounds[bounds.length - 1][1] : 0, found = bounds.find(([, count]) => count >= all * part);
  return all > 0 && found ? found[0] : NaN;
}

export class RoutesView {
  constructor() { this.charts = new Map(); }

  title() { return 'Routes'; }

  slot(name) { return this.charts.get(name)?.element; }

  async load() {
    this.routes = (await get('/routes')).routes;
    this.loaded = true;
  }

  choose() {}

  act() {}

  renderRoute(it) {
    const name = it.route || it.name || 'route', bounds = (it.latency || []).map(([bound, count]) => [numberOf(bound), count]);
    if (bounds.length) {
      if (!this.charts.has(name)) this.charts.set(name, new Histogram());
      this.charts.get(name).update({ title: 'Latency', value: `half within ${duration(percentile(bounds, 0.5))}, 99 % within ${duration(percentile(bounds, 0.99))}`, bounds });
    }
    const known = ['answered', 'failed', 'refused', 'queued', 'under_way', 'replicas', 'replicas_alive', 'batches', 'rows'];
    return h('section', { class: 'part', 'data-key': `route ${name}`, 'aria-label': name },
      h('div', { class: 'head' }, h('h2', null, h('code', null, name)), it.version || it.model ? h('span', { class: 'tag' }, it.version || it.model) : '',
        it.canary?.version ? h('span', { class: 'tag' }, `${number(it.canary.weight * 100)} % to ${it.canary.version}`) : ''),
      facts(known.filter((key) => it[key] !== undefined).map((key) => [key.replace('_', ' ').replace(/^./, (first) => first.toUpperCase()), number(it[key])])),
      bounds.length ? h('div', { 'data-own': `chart ${name}`, 'data-slot': name }) : '',
      it.curl ? h('pre', { class: 'ask', tabindex: '0', 'aria-label': `how ${name} is asked` }, it.curl) : '');
  }

  render() {
    const head = h('div', { class: 'top' }, h('div', null, h('h1', null, 'Routes'), h('p', { class: 'soft' }, 'Models that answer requests.')));
    if (this.routes.length === 0)
      return [head, empty('Nothing is served', 'A service puts a model of the repository under a route, in processes of its own.', 'troupe serve digits@production /digits')];
    return [head, this.routes.map((it) => this.renderRoute(it))];
  }
}

export class CompareView {
  constructor() {
    Object.assign(this, { over: 'reports', scale: 'linear', charts: new Map() });
  }

  title() { return 'Compare'; }

  slot(name) { return this.charts.get(name)?.element; }

  async load() {
    const chosen = app.compared.list();
    this.runs = (await Promise.all(chosen.map(async (id) => {
      const [kind, name] = [id.slice(0, id.indexOf('/')), id.slice(id.indexOf('/') + 1)], path = `/${kind}/${part_of(name)}`;
      try {
        const [job, curves] = await Promise.all([get(path), get(`${path}/curves?over=${this.over}`).catch((error) => {
          if (error instanceof Failure && error.status === 404) return { metrics: [] }; // It has made no report.
          throw error;
        })]);
        return { id, path, job, curves };
      } catch (error) {
        if (error instanceof TypeError) throw error;
        return null;
      }
    }))).filter(Boolean);
    this.loaded = true;
  }

  choose(name, value) { this[name] = value; }

  act(name, data) {
    if (name !== 'drop') return;
    app.compared.set(data.id, false);
    app.refresh();
  }

  render() {
    const runs = this.runs;
    const head = h('div', { class: 'top' }, h('div', { class: 'grow' }, h('h1', null, 'Compare'), h('p', { class: 'soft' }, 'The curves of chosen runs on the same axes.')),
      runs.length ? h('div', { class: 'choices' }, choice('Horizontal axis', 'over', [['reports', 'Reports'], ['time', 'Time']], this.over), choice('Scale', 'scale', [['linear', 'Linear'], ['log', 'Log']], this.scale)) : '');
    if (runs.length === 0) return [head, empty('Nothing chosen', 'Tick the boxes in the lists of jobs and runs to see their curves beside each other.')];
    const names = [...new Set(runs.flatMap((it) => it.curves.metrics.map((metric) => metric.name)))].slice(0, 24);
    for (const name of names) {
      if (!this.charts.has(name)) this.charts.set(name, new Lines(240));
      this.charts.get(name).update({
        title: name, axis: this.over, log: this.scale === 'log', about: `of ${runs.length} runs`,
        series: runs.map((it, i) => ({ name: it.job.name || it.id, kind: `k${i % 8}`, slots: (it.curves.metrics.find((metric) => metric.name === name)?.slots || []).map((slot) => slot.map(numberOf)) })),
      });
    }
    const configs = runs.map((it) => flat({ ...it.job.asked, ...it.job.config, ...it.job.modified })), keys = [...new Set(configs.flatMap(Object.keys))];
    const varied = keys.filter((key) => new Set(configs.map((it) => plain(it[key]))).size > 1).slice(0, 8);
    return [head,
      table('Runs', [{ title: 'Run' }, { title: 'State' }, { title: 'Reports', kind: 'n' }, ...varied.map((title) => ({ title, kind: 'n' })), { title: h('span', { class: 'unseen' }, 'Remove') }],
        runs.map((it, i) => ({ key: it.id, cells: [h('span', null, h('span', { class: `dot k${i % 8}`, 'aria-hidden': 'true' }), ' ', h('a', { class: 'name', href: `#${it.path}` }, it.job.name || it.id)), stateOf(it.job).toLowerCase(), number(it.job.reports || 0),
          ...varied.map((key) => plain(configs[i][key] ?? '\u2013')), h('button', { type: 'button', class: 'quiet', 'data-act': 'drop', 'data-id': it.id, 'aria-label': `Remove ${it.job.name}` }, 'Remove')] }))),
      part('Curves', '', h('div', { class: 'grid' }, names.map((name) => h('div', { 'data-key': `metric ${name}`, 'data-own': `metric ${name}`, 'data-slot': name }))))];
  }
}
