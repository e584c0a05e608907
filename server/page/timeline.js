// timeline.js: who had how many CPUs and GPUs when, and what was used of them.
import { h, get, choice, empty, number, bytes, plural } from '/dom.js';
import { Lines, Bars } from '/charts.js';
import { stateOf } from '/jobs.js';

const SPANS = [['1', '1 h'], ['6', '6 h'], ['24', '24 h'], ['168', '7 d']];
const KINDS = { DONE: 'k2', FAILED: 'k1', LOST: 'k1', STOPPED: 'k6', CANCELLED: 'k7', PAUSED: 'k6' };
const PLACES = 160;

function hasAny(jobs, data) {
  return data.gpus > 0 || jobs.some((job) => job.gpus > 0 || (job.usage && job.usage.gpus));
}

export class TimelineView {
  constructor() {
    this.hours = '1';
    this.charts = { cpus: new Lines(190), memory: new Lines(190), gpus: new Lines(190), gpu_memory: new Lines(190), jobs: new Bars().listen() };
    this.charts.jobs.plot.removeAttribute('tabindex');
  }

  title() { return 'Timeline'; }

  slot(name) { return this.charts[name]?.element; }

  async load() {
    this.data = await get(`/timeline?hours=${this.hours}`);
    this.loaded = true;
  }

  choose(name, value) { this.hours = value; }

  act() {}

  // Each job's use at the same places, so that they stand on each other.
  sums(jobs, from, to, what) {
    const width = (to - from) / PLACES;
    return jobs.filter((job) => job.usage && job.usage[what]).map((job) => ({
      name: job.name, kind: job.kind,
      slots: Array.from({ length: PLACES }, (_, k) => {
        const a = from + k * width, usage = job.usage;
        const first = Math.max(0, Math.floor((a - usage.from) / usage.width_s)), last = Math.ceil((a + width - usage.from) / usage.width_s);
        const values = last <= 0 ? [] : usage[what].slice(first, Math.max(first + 1, last));
        const end = usage.from + usage[what].length * usage.width_s;
        return [a, a + width, values.length && a < end ? values.reduce((x, y) => x + y, 0) / values.length : 0];
      }),
    }));
  }

  render() {
    const data = this.data, jobs = data.jobs;
    const head = h('div', { class: 'top' }, h('div', { class: 'grow' }, h('h1', null, 'Timeline'),
      h('p', { class: 'soft' }, hasAny(jobs, data) ? 'Who had which CPUs, GPUs and memory when.' : 'Who had which CPUs and memory when.')), choice('How far back', 'hours', SPANS, this.hours));
    if (jobs.length === 0) return [head, empty('Nothing ran', 'No job ran or waited in this time.')];
    jobs.filter((job) => job.usage).forEach((job, i) => { job.kind = `k${i % 8}`; });
    const begin = Math.min(...jobs.map((job) => job.submitted_at || job.started_at || data.now));
    const to = data.now, from = Math.max(data.since, Math.min(begin, to - 60));
    const rows = jobs.map((job) => {
      const state = stateOf(job), end = job.ended_at || (job.outcome || job.state === 'LOST' ? (job.started_at || to) + (job.elapsed_s || 0) : to);
      const mean = (what) => job.usage && job.usage[what] && job[what] ? job.usage[what].reduce((x, y) => x + y, 0) / job.usage[what].filter((value) => value !== null).length / job[what] : undefined;
      return { id: job.id, swatch: job.kind, name: job.name || `#${job.id}`, state: state.toLowerCase(), kind: KINDS[state] || 'k0', wait: job.submitted_at, start: job.started_at, end, cpus: job.cpus, gpus: job.gpus, usage: job.usage, used: mean('cpus'), gpus_used: mean('gpus') };
    });
    const cpus = this.sums(jobs, from, to, 'cpus'), memory = this.sums(jobs, from, to, 'memory_bytes');
    const gpus = this.sums(jobs, from, to, 'gpus'), gpuMemory = this.sums(jobs, from, to, 'gpu_memory_bytes'), hasGpus = hasAny(jobs, data);
    const last = (what) => jobs.filter((job) => !job.outcome && job.usage && job.usage[what]).reduce((sum, job) => sum + (job.usage[what].findLast((value) => value !== null) || 0), 0);
    this.charts.cpus.update({ title: 'CPUs in use', value: `${number(last('cpus'), 2)} of ${number(data.cpus)} now`, axis: 'clock', from, to, low0: true, stacked: true, limit: data.cpus, series: cpus, about: `by ${plural(cpus.length, 'job')} over time`, format: (value) => number(value, 3) });
    this.charts.memory.update({ title: 'Memory in use', value: `${bytes(last('memory_bytes'))} of ${bytes(data.memory_bytes)} now`, axis: 'clock', from, to, low0: true, stacked: true, series: memory, about: `by ${plural(memory.length, 'job')} over time`, bytes: true, format: (value) => bytes(value) });
    if (hasGpus) {
      this.charts.gpus.update({ title: 'GPUs busy', value: `${number(last('gpus'), 2)}${data.gpus ? ` of ${number(data.gpus)}` : ''} now`, axis: 'clock', from, to, low0: true, stacked: true, limit: data.gpus, series: gpus, about: `by ${plural(gpus.length, 'job')} over time`, format: (value) => number(value, 3) });
      this.charts.gpu_memory.update({ title: 'GPU memory in use', value: `${bytes(last('gpu_memory_bytes'))} now`, axis: 'clock', from, to, low0: true, stacked: true, series: gpuMemory, about: `by ${plural(gpuMemory.length, 'job')} over time`, bytes: true, format: (value) => bytes(value) });
    }
    this.charts.jobs.update({ title: 'Jobs', value: plural(jobs.length, 'job'), from, to, rows });
    const slot = (name) => h('div', { 'data-key': name, 'data-own': name, 'data-slot': name });
    const legend = h('ul', { class: 'legend' }, [['soft', 'waits'], ['k0', 'runs'], ['k2', 'done'], ['k6', 'stopped'], ['k1', 'failed']].map(([kind, text]) =>
      h('li', null, h('span', { class: `swatch ${kind}` }), text)), h('li', null, 'filled: the part of its CPUs that it used'),
      rows.some((row) => row.gpus_used !== undefined) ? h('li', null, 'strip below: of its GPUs') : '');
    const shown = jobs.filter((job) => job.usage), names = h('ul', { class: 'legend', 'aria-label': 'Jobs in the charts' }, shown.slice(0, 16).map((job) =>
      h('li', null, h('span', { class: `swatch ${job.kind}` }), job.name || `#${job.id}`)), shown.length > 16 ? h('li', null, `and ${shown.length - 16} more`) : '');
    return [head, shown.length ? h('div', { class: 'names' }, names) : '', h('div', { class: 'two' }, slot('cpus'), slot('memory'), hasGpus ? [slot('gpus'), slot('gpu_memory')] : ''), h('section', { class: 'part', 'aria-label': 'Jobs over time' }, h('div', { class: 'head' }, h('h2', null, 'Jobs over time'), legend), slot('jobs'))];
  }
}
