// timeline.js: who had how many CPUs when, and what was used of them.
import { h, get, choice, empty, number, bytes, plural } from '/dom.js';
import { Lines, Bars } from '/charts.js';
import { stateOf } from '/jobs.js';

const SPANS = [['1', '1 h'], ['6', '6 h'], ['24', '24 h'], ['168', '7 d']];
const KINDS = { DONE: 'k2', FAILED: 'k1', LOST: 'k1', STOPPED: 'k6', CANCELLED: 'k7', PAUSED: 'k6' };
const PLACES = 160;

export class TimelineView {
  constructor() {
    this.hours = '1';
    this.charts = { cpus: new Lines(190), memory: new Lines(190), jobs: new Bars().listen() };
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
    return jobs.filter((job) => job.usage).map((job, i) => ({
      name: job.name, kind: `k${i % 8}`,
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
      h('p', { class: 'soft' }, 'Who had which CPUs and memory when.')), choice('How far back', 'hours', SPANS, this.hours));
    if (jobs.length === 0) return [head, empty('Nothing ran', 'No job ran or waited in this time.')];
    const begin = Math.min(...jobs.map((job) => job.submitted_at || job.started_at || data.now));
    const to = data.now, from = Math.max(data.since, Math.min(begin, to - 60));
    const rows = jobs.map((job) => {
      const state = stateOf(job), end = job.ended_at || (job.outcome || job.state === 'LOST' ? (job.started_at || to) + (job.elapsed_s || 0) : to);
      const used = job.usage && job.cpus ? job.usage.cpus.reduce((x, y) => x + y, 0) / job.usage.cpus.length / job.cpus : undefined;
      return { id: job.id, name: job.name || `#${job.id}`, state: state.toLowerCase(), kind: KINDS[state] || 'k0', wait: job.submitted_at, start: job.started_at, end, cpus: job.cpus, usage: job.usage, used };
    });
    const cpus = this.sums(jobs, from, to, 'cpus'), memory = this.sums(jobs, from, to, 'memory_bytes');
    const last = (what) => jobs.filter((job) => !job.outcome && job.usage).reduce((sum, job) => sum + (job.usage[what].findLast((value) => value !== null) || 0), 0);
    this.charts.cpus.update({ title: 'CPUs in use', value: `${number(last('cpus'), 2)} of ${number(data.cpus)} now`, axis: 'clock', from, to, low0: true, stacked: true, limit: data.cpus, series: cpus, about: `by ${cpus.length} jobs over time`, format: (value) => number(value, 3) });
    this.charts.memory.update({ title: 'Memory in use', value: `${bytes(last('memory_bytes'))} of ${bytes(data.memory_bytes)} now`, axis: 'clock', from, to, low0: true, stacked: true, series: memory, about: `by ${memory.length} jobs over time`, bytes: true, format: (value) => bytes(value) });
    this.charts.jobs.update({ title: 'Jobs', value: plural(jobs.length, 'job'), from, to, rows });
    const slot = (name) => h('div', { 'data-key': name, 'data-own': name, 'data-slot': name });
    const legend = h('ul', { class: 'legend' }, [['soft', 'waits'], ['k0', 'runs'], ['k2', 'done'], ['k6', 'stopped'], ['k1', 'failed']].map(([kind, text]) =>
      h('li', null, h('span', { class: `swatch ${kind}` }), text)), h('li', null, 'filled: the part of its CPUs that it used'));
    return [head, h('div', { class: 'two' }, slot('cpus'), slot('memory')), h('section', { class: 'part', 'aria-label': 'Jobs over time' }, h('div', { class: 'head' }, h('h2', null, 'Jobs over time'), legend), slot('jobs'))];
  }
}
