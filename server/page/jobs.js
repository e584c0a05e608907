// jobs.js: lists: jobs of the server, and runs in the folder of results.
import { h, get, badge, number, ago, duration, table, choice, empty, plural, part_of } from '/dom.js';
import { spark } from '/charts.js';
import { app } from '/app.js';

export function stateOf(job) {
  return job.outcome || job.state;
}

// Seconds that it has run until now, or until its end.
export function ranFor(job, now) {
  if (!job.started_at) return job.elapsed_s || NaN;
  return (job.ended_at || (job.state === 'LOST' ? job.started_at + (job.elapsed_s || 0) : now)) - job.started_at;
}

function progress(job) {
  if (!job.expected_reports) return h('span', null, number(job.reports || 0), h('small', null, job.reports === 1 ? ' report' : ' reports'));
  const part = Math.min(1, job.reports / job.expected_reports);
  return h('div', { class: 'progress' }, h('progress', { max: '1', value: part.toFixed(3), 'aria-label': 'Reports made of those expected' }),
    h('span', { class: 'nw' }, `${Math.floor(part * 100)} %`));
}

function curveOf(job) {
  const name = job.curve && job.curve.metric;
  if (!name) return '';
  const last = job.metrics[name];
  return h('div', { class: 'curve' }, spark(job.curve.points, `${name}, last ${number(last)}`),
    h('span', null, number(last), h('br'), h('small', null, name)));
}

function compareBox(id, name) {
  return h('input', { type: 'checkbox', 'data-compare': id, checked: app.compared.has(id), 'aria-label': `Compare ${name}` });
}

function row(kind, job, now) {
  const id = `${kind}/${job.id}`, ran = ranFor(job, now);
  const why = job.error || (['QUEUED', 'STARTING', 'PAUSED'].includes(stateOf(job)) ? job.why : '') || job.problem;
  return {
    key: id,
    cells: [
      compareBox(id, job.name || String(job.id)),
      h('div', null, h('a', { class: 'name', href: `#/${kind}/${part_of(job.id)}` }, job.name || `job ${job.id}`),
        h('br'), h('small', null, kind === 'jobs' ? `#${job.id} ` : '', job.trainer || '')),
      h('div', null, badge(stateOf(job)), why ? h('div', { class: 'why small soft' }, why.length > 120 ? why.slice(0, 119) + '\u2026' : why) : ''),
      progress(job),
      curveOf(job),
      h('div', null, number(job.ranks), job.gpus > 0 ? [h('br'), h('small', null, plural(job.gpus, 'GPU'))] : '', job.restarts > 0 ? [h('br'), h('small', null, plural(job.restarts, 'restart'))] : ''),
      h('div', null, Number.isFinite(ran) ? duration(ran) : '\u2013', h('br'), h('small', null, ago(job.started_at || job.submitted_at, now))),
    ],
  };
}

const COLUMNS = [
  { title: h('span', { class: 'unseen' }, 'Compare') }, { title: 'Name' }, { title: 'State' }, { title: 'Progress' },
  { title: 'Metric' }, { title: 'Ranks', kind: 'n phone-less' }, { title: 'Ran', kind: 'n' },
];
const columns = () => COLUMNS.map((it) => ({ ...it, title: it.title.cloneNode ? it.title.cloneNode(true) : it.title }));

const FILTERS = [['', 'All'], ['active', 'Active'], ['done', 'Done'], ['failed', 'Failed'], ['stopped', 'Stopped']];

export class JobsView {
  constructor() {
    this.state = '';
    this.more = [];
    this.pages = 1;
    this.seen = new Map();
    this.others = [];
  }

  title() { return 'Jobs'; }

  async load() {
    const jobs = [];
    let next = 0;
    for (let page = 0; page < this.pages && (page === 0 || next); page++) {
      const got = await get(`/jobs?limit=50&curves=1&state=${this.state}${next ? `&before=${next}` : ''}`);
      jobs.push(...got.jobs);
      next = got.next;
      this.server = got.server;
    }
    if (jobs.length === 0 && this.state === '') {
      const [sweeps, runs] = await Promise.all([get('/sweeps?limit=1'), get('/runs?limit=1')]);
      this.others = [sweeps.sweeps.length && ['sweeps', 'sweeps'], runs.runs.length && ['runs', 'runs']].filter(Boolean);
    }
    this.jobs = jobs;
    this.next = next;
    this.loaded = true;
    for (const job of jobs) { // What has changed is said once.
      const before = this.seen.get(job.id), now = stateOf(job);
      if (before && before !== now) app.say(`${job.name} is ${now.toLowerCase()}`);
      this.seen.set(job.id, now);
    }
  }

  choose(name, value) {
    this.state = value;
    this.pages = 1;
  }

  act(name) {
    if (name === 'more') { this.pages++; app.refresh(); }
  }

  render() {
    const now = Date.now() / 1000, active = this.jobs.filter((job) => !job.outcome && job.state !== 'LOST').length;
    const head = h('div', { class: 'top' }, h('div', { class: 'grow' }, h('h1', null, 'Jobs'),
      h('p', { class: 'soft' }, this.jobs.length === 0 ? 'What this machine trains, waits with, and has trained.'
        : `${plural(active, 'job')} under way${this.server ? '' : ', as read from the folders: no train server runs'}`)),
    choice('Which jobs', 'state', FILTERS, this.state));
    if (this.jobs.length === 0 && this.state === '')
      return [head, this.others.length ? h('div', { class: 'panel note' }, 'Programs that trained by themselves left ', this.others.map(([path, text], i) => [i ? ' and ' : '', h('a', { href: `#/${path}` }, text)]), '.') : '',
        empty('No jobs yet', 'A program submits jobs to the train server, which runs them and keeps them, whatever becomes of the program.', 'troupe server start\ntroupe submit ./program')];
    if (this.jobs.length === 0)
      return [head, empty('None of these', 'No job is in that state now.')];
    return [head, table('Jobs', columns(), this.jobs.map((job) => row('jobs', job, now)), { header: 1, cards: true }),
      this.next ? h('p', { class: 'actions', style: null }, h('button', { type: 'button', 'data-act': 'more' }, 'Show more')) : ''];
  }
}

export class RunsView {
  title() { return 'Runs'; }

  async load() {
    const got = await get('/runs?limit=100');
    this.runs = got.runs;
    this.folder = got.folder;
    this.count = got.count;
    this.loaded = true;
  }

  choose() {}

  act() {}

  render() {
    const head = h('div', { class: 'top' }, h('div', { class: 'grow' }, h('h1', null, 'Runs'),
      h('p', { class: 'soft' }, 'In ', h('span', { class: 'path' }, this.folder),
        this.count > this.runs.length ? `: the newest ${this.runs.length} of ${number(this.count)}` : '')));
    if (this.runs.length === 0)
      return [head, empty('No runs here', 'Each training run leaves a folder there, with or without a train server.')];
    return [head, table('Runs', columns(), this.runs.map((run) => row('runs', run, Date.now() / 1000)), { header: 1, cards: true })];
  }
}
