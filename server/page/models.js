// models.js: the repository of models: keys, versions, and where a version comes from.
import { h, get, number, bytes, ago, table, pairs, facts, part, empty, plural, part_of } from '/dom.js';
import { flat } from '/job.js';

const KEYS_DETAILED = 40;

function metricsOf(metrics, most = 3) {
  return Object.entries(metrics || {}).slice(0, most).map(([name, value]) => h('span', { class: 'nw' }, h('small', null, `${name} `), number(value), ' '));
}

function aliasTags(aliases) {
  return (aliases || []).map((it) => [h('span', { class: 'tag' }, it), ' ']);
}

export class ModelsView {
  title() { return 'Models'; }

  period() { return 5000; }

  async load() {
    const keys = Object.entries(await get('/models'));
    const newest = await Promise.all(keys.slice(0, KEYS_DETAILED).map(([key]) => get(`/models/${part_of(key)}?limit=1`).catch(() => null)));
    Object.assign(this, { keys, newest, loaded: true });
  }

  choose() {}

  act() {}

  render() {
    const head = h('div', { class: 'top' }, h('div', null, h('h1', null, 'Models'), h('p', { class: 'soft' }, 'What was pushed to the repository, by key and version.')));
    if (this.keys.length === 0)
      return [head, empty('The repository is empty', 'A push gives the weights of a run a name and a number that never change.', 'troupe_push(net, "digits", checkpoint, &ref)')];
    return [head, table('Models', [{ title: 'Key' }, { title: 'Newest' }, { title: 'Metrics' }, { title: 'Versions', kind: 'n' }, { title: 'Size', kind: 'n phone-less' }, { title: 'Pushed', kind: 'n' }],
      this.keys.map(([key, versions], i) => {
        const it = this.newest[i]?.versions[0] || {};
        return { key, cells: [h('div', null, h('a', { class: 'name', href: `#/models/${part_of(key)}` }, key), h('br'), h('small', null, it.model || '')),
          h('span', { class: 'nw' }, `@${versions[versions.length - 1] ?? '\u2013'} `, aliasTags(it.aliases)), it.problem || metricsOf(it.metrics), number(versions.length), bytes(it.bytes), ago(it.pushed_at)] };
      }))];
  }
}

export class ModelView {
  constructor(key) { this.key = key; }

  title() { return this.key; }

  period() { return 5000; }

  async load() {
    this.model = await get(`/models/${part_of(this.key)}?limit=100`);
    this.loaded = true;
  }

  choose() {}

  act() {}

  render() {
    const model = this.model, names = [...new Set(model.versions.flatMap((it) => Object.keys(it.metrics || {})))].slice(0, 5);
    return [
      h('div', { class: 'top' }, h('div', null, h('p', { class: 'kicker' }, h('a', { href: '#/models' }, 'Models')), h('h1', null, model.key),
        h('p', { class: 'soft' }, plural(model.count, 'version'), model.count > model.versions.length ? `, of which these are the newest ${model.versions.length}` : ''))),
      table('Versions', [{ title: 'Version' }, { title: 'Aliases' }, ...names.map((title) => ({ title, kind: 'n' })), { title: 'Size', kind: 'n' }, { title: 'Pushed', kind: 'n' }],
        model.versions.map((it) => ({ key: it.version, cells: [
          h('a', { class: 'name', href: `#/models/${part_of(this.key)}/${it.version}` }, `${this.key}@${it.version}`), it.problem ? h('span', { class: 'failed' }, it.problem) : aliasTags(it.aliases),
          ...names.map((name) => number(it.metrics?.[name])), bytes(it.bytes), ago(it.pushed_at)] }))),
    ];
  }
}

export class VersionView {
  constructor(key, version) { Object.assign(this, { key, version }); }

  title() { return `${this.key}@${this.version}`; }

  period() { return 10000; }

  async load() {
    this.it = await get(`/models/${part_of(this.key)}/${part_of(this.version)}`);
    this.loaded = true;
  }

  choose() {}

  act() {}

  lineage() {
    const it = this.it, from = it.lineage || {}, run = from.run ? from.run.split('/').pop() : null;
    const steps = [
      from.data && [from.data, from.data_keys?.length ? `data: ${from.data_keys.join(', ')}` : 'data'],
      from.program && [from.program.split('/').pop(), from.build_id ? `program, build ${from.build_id.slice(0, 10)}` : 'program'],
      run && [from.job ? h('a', { href: `#/jobs/${from.job}` }, run) : run, from.job ? `run, job #${from.job}` : `run of ${plural(from.world || 1, 'rank')}`],
      run && [`checkpoint ${number(from.checkpoint)}`, `after report ${number(from.report)}`],
      [`${it.key}@${it.version}`, it.aliases?.length ? it.aliases.join(', ') : 'version'],
    ].filter(Boolean);
    return h('ol', { class: 'flow' }, steps.map(([name, what], i) => h('li', null, h('div', { class: `step ${i === steps.length - 1 ? 'end' : ''}` }, h('small', null, what), name))));
  }

  render() {
    const it = this.it;
    return [
      h('div', { class: 'top' }, h('div', null, h('p', { class: 'kicker' }, h('a', { href: '#/models' }, 'Models'), ' / ', h('a', { href: `#/models/${part_of(this.key)}` }, this.key)),
        h('div', { class: 'titled' }, h('h1', null, `${it.key}@${it.version}`), aliasTags(it.aliases)))),
      it.problem ? h('div', { class: 'panel bad' }, it.problem) : '',
      facts([['Model', it.model || '\u2013'], ['Pushed', ago(it.pushed_at)], ['Size', bytes(it.bytes)], ...Object.entries(it.metrics || {}).slice(0, 4).map(([name, value]) => [name, number(value, 5)])]),
      part('Where it comes from', '', this.lineage()),
      part('Settings', '', h('div', { class: 'two' }, pairs('Config', flat(it.config)), pairs('About', { ...flat(it.metadata), path: it.path, run: it.lineage?.run || '', 'kept program': it.lineage?.kept_program_bytes ? bytes(it.lineage.kept_program_bytes) : 'none', 'config type': it.config_type || '', 'state type': it.state_type || '' }))),
      part('Files', '', table('Files', [{ title: 'Name' }, { title: 'Size', kind: 'n' }, { title: 'XXH64' }], (it.files || []).map((file) => ({ key: file.name, cells: [file.name, bytes(file.bytes), h('code', null, file.xxh64)] })))),
    ];
  }
}
