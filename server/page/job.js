// job.js: one job, or one run: live curves, what its ranks use, output, and all that happened.
import { h, get, post, badge, number, bytes, ago, duration, table, pairs, facts, part, choice, plain, part_of, plural, Failure, numberOf } from '/dom.js';
import { Lines } from '/charts.js';
import { stateOf, ranFor } from '/jobs.js';
import { app } from '/app.js';

const LOG_KEPT = 200000;

// A 404 is nothing, as long as there is no run yet.
async function maybe(promise) {
  try { return await promise; } catch (error) {
    if (error instanceof Failure && error.status === 404) return null;
    throw error;
  }
}

function slotsOf(usage, values) {
  return values.map((value, i) => [usage.from + i * usage.width_s, usage.from + (i + 1) * usage.width_s, value === null ? NaN : value]);
}

// {"a": {"b": 1}} as {"a.b": 1}
export function flat(object, before = '') {
  const out = {};
  for (const [name, value] of Object.entries(object || {})) {
    if (value && typeof value === 'object' && !Array.isArray(value)) Object.assign(out, flat(value, `${before}${name}.`));
    else out[before + name] = value;
  }
  return out;
}

export class JobView {
  constructor(kind, id) {
    this.kind = kind;
    this.id = id;
    this.path = `/${kind}/${part_of(id)}`;
    this.over = 'reports';
    this.scale = 'linear';
    this.charts = new Map();
    this.rank = '0';
    this.log = h('pre', { class: 'card log', tabindex: '0', 'aria-label': 'Output' });
    this.startLog();
  }

  title() { return this.job ? this.job.name || `Job ${this.id}` : `Job ${this.id}`; }

  ended() { return this.job && (this.job.outcome || this.job.state === 'LOST'); }

  period() { return this.ended() ? 5000 : 1000; }

  startLog() {
    this.logNext = -1;
    this.log.textContent = '';
  }

  async loadLog() {
    const rank = this.rank, from = this.logNext;
    const got = await maybe(get(`${this.path}/logs?${rank === '' ? '' : `rank=${rank}&`}${from < 0 ? 'tail=65536' : `from=${from}`}`));
    if (!got || rank !== this.rank || from !== this.logNext) return;
    this.logNext = got.next;
    if (!got.text) return;
    const down = !this.log.isConnected || this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < 30;
    this.log.append(got.text);
    if (this.log.textContent.length > LOG_KEPT) this.log.textContent = this.log.textContent.slice(-LOG_KEPT / 2);
    this.toEnd = down;
  }

  async load() {
    const [job, curves, usage] = await Promise.all([
      get(this.path), maybe(get(`${this.path}/curves?over=${this.over}`)),
      this.kind === 'jobs' ? maybe(get(`${this.path}/usage`)) : null, this.loadLog()]);
    if (this.job && stateOf(this.job) !== stateOf(job)) app.say(`${job.name} is ${stateOf(job).toLowerCase()}`);
    if (!this.loaded && this.kind === 'jobs' && !job.log_ranks?.includes(0)) {
      this.rank = '';
      this.startLog();
      await this.loadLog();
    }
    Object.assign(this, { job, curves, usage, loaded: true });
  }

  drawn() {
    if (this.toEnd) this.log.scrollTop = this.log.scrollHeight;
    this.toEnd = false;
  }

  choose(name, value) {
    if (name === 'rank') { this.rank = value; this.startLog(); } else { this[name] = value; }
  }

  act(name) {
    const job = this.job;
    if (name === 'stop')
      app.ask({
        title: `Stop ${job.name}?`, danger: true, button: 'Stop the job',
        text: 'It ends at its next report, on all ranks at once, and keeps its checkpoints.',
        act: async () => { await post(`${this.path}/stop`); app.say('The job was asked to stop'); },
      });
    if (name === 'pause') {
      const paused = stateOf(job) === 'PAUSED';
      app.ask({
        title: paused ? `Go on with ${job.name}?` : `Pause ${job.name}?`, button: paused ? 'Go on' : 'Pause the job',
        text: paused ? 'It waits in the queue until all that it needs is free, and goes on from its last checkpoint.'
          : 'It gives back all that it holds behind its next checkpoint, and waits until it is told to go on.',
        act: async () => { await post(`${this.path}/pause`, { pause: !paused }); app.say(`The job was asked to ${paused ? 'go on' : 'pause'}`); },
      });
    }
    if (name === 'modify') this.modify();
  }

  modify() {
    const config = { ...this.job.asked, ...this.job.config, ...this.job.modified };
    const names = Object.keys(config).filter((name) => typeof config[name] !== 'object');
    const inputs = app.ask({
      title: `Modify ${this.job.name}`, button: 'Set',
      text: 'All ranks see the new value from the same report on. The trainer says which members may be changed while it runs.',
      fields: [names.length ? { name: 'member', label: 'Member', options: names } : { name: 'member', label: 'Member' },
        { name: 'value', label: 'Value', value: names.length ? plain(config[names[0]]).replace('\u2212', '-') : '' }],
      act: async ({ member, value }) => {
        let parsed;
        try { parsed = JSON.parse(value); } catch (error) { parsed = value; }
        await post(`${this.path}/modify`, { [member]: parsed });
        app.say(`${member} is asked to be ${value}`);
      },
    });
    const show = () => { const it = config[inputs[0].value]; inputs[1].value = typeof it === 'string' ? it : JSON.stringify(it ?? ''); };
    inputs[0].addEventListener('change', show);
    if (names.length) show();
  }

  chart(name, make) {
    if (!this.charts.has(name)) this.charts.set(name, make());
    return this.charts.get(name);
  }

  slot(name) {
    return name === 'log' ? this.log : this.charts.get(name)?.element;
  }

  renderCurves() {
    const curves = this.curves;
    if (!curves || curves.metrics.length === 0)
      return part('Curves', '', h('div', { class: 'empty' }, h('p', null, this.ended() ? 'This run has made no report.' : 'The first report is still to come.')));
    for (const metric of curves.metrics)
      this.chart(`metric ${metric.name}`, () => new Lines()).update({
        title: metric.name, value: number(metric.last, 5), axis: this.over, log: this.scale === 'log',
        about: metric.low === undefined ? 'no numbers yet' : `a curve over ${number(curves.reports)} reports, lowest ${number(metric.low)}, highest ${number(metric.high)}`,
        series: [{ name: metric.name, kind: 'k0', slots: metric.slots.map((slot) => slot.map(numberOf)) }],
        restarts: curves.restarts, changes: curves.changes.filter((it) => it.in_effect !== false), checkpoints: curves.checkpoints,
      });
    const legend = h('ul', { class: 'legend' }, curves.checkpoints.length ? h('li', null, h('span', { class: 'good', 'aria-hidden': 'true' }, '\u25b4'), 'checkpoint') : '',
      curves.restarts.length ? h('li', null, h('span', { class: 'swatch restart' }), 'restart') : '',
      curves.changes.length ? h('li', null, h('span', { class: 'swatch change' }), 'change') : '');
    return part('Curves', h('div', { class: 'choices' }, legend,
      choice('Horizontal axis', 'over', [['reports', 'Reports'], ['time', 'Time']], this.over),
      choice('Scale', 'scale', [['linear', 'Linear'], ['log', 'Log']], this.scale)),
    h('div', { class: 'grid' }, curves.metrics.map((metric) => h('div', { 'data-key': `metric ${metric.name}`, 'data-own': `metric ${metric.name}`, 'data-slot': `metric ${metric.name}` }))));
  }

  // The value of now, or of a job that has ended the mean over its time.
  shown(values) {
    if (!this.ended()) return values.findLast((value) => value !== null) || 0;
    const known = values.filter((value) => value !== null);
    return known.length ? known.reduce((x, y) => x + y, 0) / known.length : 0;
  }

  // GPU by GPU, as processes are shown.
  renderGpus() {
    const usage = this.usage, gpus = usage && usage.gpus || [];
    if (gpus.length === 0)
      return this.job.gpus > 0 && usage && usage.ranks.length > 0 && !usage.gpus
        ? part('What its GPUs do', '', h('p', { class: 'soft' }, 'This is not measured yet. If it stays so, the output of the runner says why.')) : '';
    const lines = (values) => gpus.slice(0, 16).map((it, i) => ({ name: `GPU ${it.gpu}`, kind: `k${i % 8}`, slots: slotsOf(usage, it[values]) }));
    const last = (values) => gpus.reduce((sum, it) => sum + this.shown(it[values]), 0), then = this.ended() ? ' on average' : '';
    const total = gpus.reduce((sum, it) => sum + (it.total_bytes || 0), 0);
    this.chart('gpus', () => new Lines(180)).update({
      title: 'GPUs busy', value: `${number(last('busy'), 3)} of ${number(gpus.length)}${then}`, axis: 'clock', low0: true, stacked: true,
      limit: gpus.length, series: lines('busy'), about: `${plural(gpus.length, 'GPU')} over time`, format: (value) => number(value, 3),
    });
    this.chart('gpu_memory', () => new Lines(180)).update({
      title: 'GPU memory', value: bytes(last('memory_bytes')) + (total ? ` of ${bytes(total)}` : '') + then, axis: 'clock', low0: true, stacked: true,
      limit: total || undefined, series: lines('memory_bytes'), about: `of ${plural(gpus.length, 'GPU')} over time`, bytes: true, format: (value) => bytes(value),
    });
    const legend = h('ul', { class: 'legend' }, lines('busy').map((it, i) => h('li', null, h('span', { class: `swatch ${it.kind}` }), `${it.name} ${gpus[i].name || ''}`)));
    return part('What its GPUs do', legend, h('div', { class: 'two' }, ['gpus', 'gpu_memory'].map((name) => h('div', { 'data-key': name, 'data-own': name, 'data-slot': name }))));
  }

  renderUsage() {
    const usage = this.usage;
    if (!usage || usage.ranks.length === 0) return '';
    const lines = (values) => usage.ranks.slice(0, 16).map((it, i) => ({ name: it.rank < 0 ? 'runner' : `rank ${it.rank}`, kind: `k${i % 8}`, slots: slotsOf(usage, it[values]) }));
    const last = (values) => usage.ranks.reduce((sum, it) => sum + this.shown(it[values]), 0), then = this.ended() ? ' on average' : '';
    this.chart('cpus', () => new Lines(180)).update({
      title: 'CPUs in use', value: number(last('cpus'), 3) + then, axis: 'clock', low0: true, stacked: true,
      limit: this.job.cpus, series: lines('cpus'), about: `by ${plural(usage.ranks.length, 'process', 'processes')} over time`, format: (value) => number(value, 3),
    });
    this.chart('memory', () => new Lines(180)).update({
      title: 'Memory', value: bytes(last('memory_bytes')) + then, axis: 'clock', low0: true, stacked: true, series: lines('memory_bytes'),
      about: `by ${plural(usage.ranks.length, 'process', 'processes')} over time`, bytes: true, format: (value) => bytes(value),
    });
    const legend = h('ul', { class: 'legend' }, lines('cpus').map((it) => h('li', null, h('span', { class: `swatch ${it.kind}` }), it.name)));
    return part('What it uses', legend, h('div', { class: 'two' }, ['cpus', 'memory'].map((name) => h('div', { 'data-key': name, 'data-own': name, 'data-slot': name }))));
  }

  renderLog() {
    const ranks = this.job.log_ranks || [];
    const options = [...(this.kind === 'jobs' ? [['', 'Runner']] : []), ...ranks.sort((a, b) => a - b).map((rank) => [String(rank), `Rank ${rank}`])];
    if (options.length === 0) return '';
    const tools = options.length <= 6 ? choice('Whose output', 'rank', options, this.rank)
      : h('select', { 'data-pick': 'rank', 'aria-label': 'Whose output' }, options.map(([value, title]) => h('option', { value, selected: value === this.rank }, title)));
    return part('Output', tools, this.log.textContent === '' ? h('p', { class: 'soft small' }, 'Nothing was printed yet.') : '',
      h('div', { 'data-own': 'log', 'data-slot': 'log', 'data-key': 'log', hidden: this.log.textContent === '' }));
  }

  renderHistory() {
    const job = this.job, out = [];
    const rows = (job.attempts || []).map((it) => ({
      key: it.attempt, cells: [number(it.attempt), ago(Date.parse(it.at) / 1000),
        it.after_report > 0 ? `report ${number(it.after_report)}${it.checkpoint ? `, ${it.checkpoint}` : it.memory ? ', from memory' : ''}` : 'the beginning',
        h('span', { class: 'mono' }, it.pids || ''), h('span', { class: 'why' }, it.cause ? [it.cause_rank >= 0 ? `Rank ${it.cause_rank}: ` : '', it.cause] : '')],
    }));
    if (rows.length > 1 || (rows[0] && job.restarts > 0))
      out.push(part('Attempts', '', table('Attempts', [{ title: 'Attempt', kind: 'nw' }, { title: 'Began', kind: 'nw' }, { title: 'Goes on from' }, { title: 'Processes' }, { title: 'Why the one before ended' }], rows.reverse())));
    const kept = (job.newest_checkpoints || []).map((it) => ({
      key: it.number, cells: [h('span', null, it.name || number(it.number), ' ', it.best ? h('span', { class: 'tag' }, 'best') : ''), ago(Date.parse(it.created) / 1000), number(it.report),
        it.problem || Object.entries(it.metrics || {}).slice(0, 3).map(([name, value]) => `${name} ${number(value)}`).join(', '), bytes(it.bytes)],
    }));
    if (kept.length)
      out.push(part('Checkpoints', job.checkpoint_count > kept.length ? h('span', { class: 'soft small' }, `the newest ${kept.length} of ${number(job.checkpoint_count)}`) : '',
        table('Checkpoints', [{ title: 'Checkpoint' }, { title: 'Made', kind: 'nw' }, { title: 'Report', kind: 'n' }, { title: 'Metrics' }, { title: 'Size', kind: 'n' }], kept)));
    const changes = (job.changes || []).map((it, i) => ({
      key: i, cells: [it.kind === 'value' ? h('code', null, it.text) : it.kind === 'ranks' ? `${it.ranks} ranks` : 'Paused',
        it.kind === 'value' && !it.in_effect ? `asked for after report ${it.at}, not in effect yet` : `since report ${number(it.at + 1)}`],
    }));
    if (changes.length) out.push(part('Changes while it ran', '', table('Changes', [{ title: 'What' }, { title: 'When' }], changes.reverse())));
    return out;
  }

  renderSettings() {
    const job = this.job, config = flat({ ...job.asked, ...job.config, ...job.modified });
    const about = { program: job.program, trainer: job.trainer, folder: job.folder, key: job.key, data: job.data, 'goes on from': job.from_checkpoint, ...flat(job.metadata) };
    for (const name of Object.keys(about)) if (about[name] === undefined || about[name] === null) delete about[name];
    return part('Settings', '', h('div', { class: 'two' },
      Object.keys(config).length ? h('div', null, h('h3', { class: 'unseen' }, 'Config'), pairs('Config', config)) : '',
      h('div', null, h('h3', { class: 'unseen' }, 'About'), pairs('About', about))));
  }

  render() {
    const job = this.job, now = Date.now() / 1000, state = stateOf(job), ran = ranFor(job, now), left = this.left(job, ran);
    const pending = job.revision > job.echo && !this.ended();
    return [
      h('div', { class: 'top' }, h('div', { class: 'grow' },
        h('p', { class: 'kicker' }, h('a', { href: `#/${this.kind}` }, this.kind === 'jobs' ? 'Jobs' : 'Runs'), this.kind === 'jobs' ? ` / #${job.id}` : ''),
        h('div', { class: 'titled' }, h('h1', null, job.name || `Job ${job.id}`), badge(state), pending ? h('span', { class: 'tag' }, 'a wish is under way') : '')),
      h('div', { class: 'actions' },
        h('label', { class: 'check' }, h('input', { type: 'checkbox', 'data-compare': `${this.kind}/${job.id}`, checked: app.compared.has(`${this.kind}/${job.id}`) }), 'Compare'),
        this.kind === 'jobs' && !this.ended() ? [h('button', { type: 'button', 'data-act': 'modify' }, 'Modify\u2026'), h('button', { type: 'button', 'data-act': 'pause' }, state === 'PAUSED' ? 'Go on\u2026' : 'Pause\u2026'), h('button', { type: 'button', class: 'danger', 'data-act': 'stop' }, 'Stop\u2026')] : '')),
      job.error ? h('div', { class: 'panel bad' }, job.error) : '',
      job.problem ? h('div', { class: 'panel warn' }, job.problem) : '',
      ['QUEUED', 'STARTING', 'PAUSED'].includes(state) && job.why ? h('div', { class: 'panel warn' }, job.why) : '',
      facts([
        ['Reports', number(job.reports || 0), job.expected_reports ? `of ${number(job.expected_reports)}` : ''],
        ['Ran', Number.isFinite(ran) ? duration(ran) : '\u2013'],
        left !== null && ['Left, about', duration(left)],
        ['Ranks', number(job.ranks), job.cpus ? plural(job.cpus, 'CPU') : ''],
        job.gpus > 0 && ['GPUs', number(job.gpus), job.gpu_ids],
        ['Restarts', number(job.restarts || 0)],
        ['Checkpoints', number(job.checkpoints || 0)],
        job.submitted_at ? ['Submitted', ago(job.submitted_at, now)] : ['Started', ago(job.started_at, now)],
      ]),
      this.renderCurves(), this.renderUsage(), this.renderGpus(), this.renderLog(), this.renderHistory(), this.renderSettings(),
    ];
  }

  left(job, ran) {
    if (this.ended() || !job.reports || !(job.expected_reports > job.reports) || !Number.isFinite(ran)) return null;
    return (job.expected_reports - job.reports) * (job.elapsed_s || ran) / job.reports;
  }
}
