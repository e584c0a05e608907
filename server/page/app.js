// app.js: the frame: which view is shown, by the address behind "#"; asks for its data once a second
// while the page is visible; theme, dialogs, and what is read out to those who do not see it.
import { h, morph, get, number, plural, Failure } from '/dom.js';
import { JobsView, RunsView } from '/jobs.js';
import { JobView } from '/job.js';
import { TimelineView } from '/timeline.js';
import { SweepsView, SweepView } from '/sweeps.js';
import { ModelsView, ModelView, VersionView } from '/models.js';
import { RoutesView, CompareView } from '/others.js';

const VIEWS = [
  [/^\/jobs$/, () => new JobsView()],
  [/^\/jobs\/([^/]+)$/, (id) => new JobView('jobs', id)],
  [/^\/timeline$/, () => new TimelineView()],
  [/^\/runs$/, () => new RunsView()],
  [/^\/runs\/([^/]+)$/, (id) => new JobView('runs', id)],
  [/^\/sweeps$/, () => new SweepsView()],
  [/^\/sweeps\/([^/]+)$/, (id) => new SweepView(id)],
  [/^\/models$/, () => new ModelsView()],
  [/^\/models\/([^/]+)$/, (key) => new ModelView(key)],
  [/^\/models\/([^/]+)\/([^/]+)$/, (key, version) => new VersionView(key, version)],
  [/^\/routes$/, () => new RoutesView()],
  [/^\/compare$/, () => new CompareView()],
];
const NAV = [['jobs', 'Jobs'], ['timeline', 'Timeline'], ['runs', 'Runs'], ['sweeps', 'Sweeps'], ['models', 'Models'], ['routes', 'Routes'], ['compare', 'Compare']];

const main = document.getElementById('main'), banner = document.getElementById('banner');
const dialog = document.getElementById('dialog');
let view = null, timer = 0, round = 0, failures = 0;

// ---- what views use

export const app = {
  // Read out politely, once.
  say(text) {
    document.getElementById('said').textContent = text;
  },

  // Asks in a dialog; `act` does it, and what it throws is shown there. fields: [{name, label, value,
  // options}].
  ask({ title, text, fields = [], button, danger, act }) {
    const problem = h('p', { class: 'problem', role: 'alert', hidden: true });
    const inputs = fields.map((field) => field.options
      ? h('select', { name: field.name }, field.options.map((it) => h('option', { value: it }, it)))
      : h('input', { name: field.name, value: field.value ?? '', autocomplete: 'off', spellcheck: 'false' }));
    const go = h('button', { type: 'button', class: danger ? 'danger full' : 'main' }, button);
    const cancel = h('button', { type: 'button', onclick: () => dialog.close() }, 'Cancel');
    go.addEventListener('click', async () => {
      go.disabled = true;
      problem.hidden = true;
      try {
        await act(Object.fromEntries(inputs.map((input) => [input.name, input.value])));
        dialog.close();
        refresh();
      } catch (error) {
        problem.textContent = error.message;
        problem.hidden = false;
      }
      go.disabled = false;
    });
    dialog.replaceChildren(h('h2', { id: 'dialog-title' }, title), text ? h('p', null, text) : '',
      h('div', { class: 'fields' }, fields.map((field, i) => h('label', null, field.label, inputs[i]))),
      problem, h('div', { class: 'actions' }, cancel, go));
    dialog.onkeydown = (event) => { if (event.key === 'Enter' && event.target.nodeName === 'INPUT') go.click(); };
    dialog.showModal();
    (inputs[0] || (danger ? cancel : go)).focus();
    return inputs;
  },

  refresh() { refresh(); },

  compared: {
    list() {
      try { return JSON.parse(sessionStorage.getItem('compare') || '[]'); } catch (error) { return []; }
    },
    has(id) { return this.list().includes(id); },
    set(id, on) {
      const list = this.list().filter((it) => it !== id);
      if (on) list.push(id);
      try { sessionStorage.setItem('compare', JSON.stringify(list.slice(-8))); } catch (error) { /* Not kept. */ }
      drawNav();
    },
  },
};

// ---- frame

function drawNav() {
  const here = location.hash.slice(2).split('/')[0] || 'jobs', chosen = app.compared.list().length;
  morph(document.getElementById('nav'), h('nav', null, NAV.map(([path, title]) =>
    h('a', { href: `#/${path}`, 'aria-current': path === here ? 'page' : null }, h('span', null, title),
      path === 'compare' && chosen > 0 ? h('small', null, String(chosen)) : ''))));
  const nav = document.getElementById('nav'), current = nav.querySelector('[aria-current]');
  if (current) nav.scrollLeft = current.offsetLeft + current.offsetWidth / 2 - nav.clientWidth / 2;
}

async function drawServer() {
  const place = document.getElementById('server');
  let dot = 'idle', text = 'No train server', title = '';
  try {
    const server = await get('/server');
    if (server.alive) {
      dot = 'ok';
      text = `Server up, ${number(server.cpus - server.cpus_free)} of ${number(server.cpus)} CPUs${server.gpus > 0 ? `, ${number(server.gpus - server.gpus_free)} of ${plural(server.gpus, 'GPU')}` : ''}`;
    }
    title = server.alive ? `process ${server.pid}, ${server.folder}` : server.why || '';
  } catch (error) {
    text = 'Not reachable';
    dot = 'bad';
  }
  place.title = title;
  morph(place, h('p', null, h('span', { class: `dot ${dot}`, 'aria-hidden': 'true' }), text));
}

function drawTheme() {
  const button = document.getElementById('theme'), kept = document.documentElement.dataset.theme || 'system';
  const next = { system: 'light', light: 'dark', dark: 'system' }[kept];
  button.textContent = { system: 'Theme: system', light: 'Theme: light', dark: 'Theme: dark' }[kept];
  button.onclick = () => {
    if (next === 'system') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    try { localStorage.setItem('theme', next); } catch (error) { /* Not kept. */ }
    drawTheme();
  };
}

function warn(text) {
  banner.hidden = !text;
  if (text && banner.textContent !== text) banner.textContent = text;
}

// ---- a view

function mount() {
  for (const slot of main.querySelectorAll('[data-slot]')) {
    const element = view.slot && view.slot(slot.dataset.slot);
    if (element && element.parentNode !== slot) slot.replaceChildren(element);
  }
}

function show(content) {
  morph(main, h('main', null, content));
  mount();
  document.title = `${view.title()} \u00b7 Troupe`;
}

async function tick() {
  const mine = ++round, of = view;
  clearTimeout(timer);
  try {
    await of.load();
    if (mine !== round || of !== view) return;
    failures = 0;
    warn('');
    show(of.render());
    if (of.drawn) of.drawn();
  } catch (error) {
    if (mine !== round || of !== view) return;
    if (error instanceof Failure && !of.loaded) {
      show(h('div', { class: 'empty', role: 'alert' }, h('h2', null, error.status === 404 ? 'Not found' : 'That did not work'), h('p', null, error.message)));
    } else {
      failures++;
      warn(error instanceof Failure ? error.message : 'The server does not answer; trying again.');
      if (!(error instanceof Failure) && !(error instanceof TypeError)) throw error;
    }
  } finally {
    if (mine === round && of === view) plan(of);
  }
}

// Once a second, later where nothing changes any more or the server is away, and not while nobody
// looks.
function plan(of) {
  clearTimeout(timer);
  if (document.visibilityState !== 'visible') return;
  timer = setTimeout(tick, failures > 0 ? Math.min(10000, 1000 * 2 ** failures) : of.period ? of.period() : 1000);
}

function refresh() { tick(); }

function route() {
  const path = location.hash.slice(1) || '/jobs';
  if (view && view.close) view.close();
  view = null;
  for (const [form, make] of VIEWS) {
    const found = path.match(form);
    if (!found) continue;
    try { view = make(...found.slice(1).map(decodeURIComponent)); } catch (error) { view = null; }
  }
  if (!view) { location.replace('#/jobs'); return; }
  drawNav();
  main.replaceChildren();
  tick();
  window.scrollTo(0, 0);
}

main.addEventListener('click', (event) => {
  const it = event.target.closest('[data-choice], [data-act], [data-sort]');
  if (!it || !view) return;
  if (it.dataset.choice) view.choose(it.dataset.choice, it.dataset.value);
  else if (it.dataset.sort) view.sort(it.dataset.sort);
  else view.act(it.dataset.act, it.dataset);
  if (view.loaded && (it.dataset.choice || it.dataset.sort)) show(view.render());
  if (it.dataset.choice) refresh();
});
main.addEventListener('change', (event) => {
  const it = event.target;
  if (it.dataset.compare) {
    app.compared.set(it.dataset.compare, it.checked);
    app.say(it.checked ? 'Chosen for comparison' : 'Not compared any more');
  } else if (it.dataset.pick && view) {
    view.choose(it.dataset.pick, it.type === 'checkbox' ? String(it.checked) : it.value);
    refresh();
  }
});
document.addEventListener('visibilitychange', () => { if (document.visibilityState === 'visible' && view) tick(); });
window.addEventListener('hashchange', () => { route(); main.focus({ preventScroll: true }); });
drawTheme();
route();
drawServer();
setInterval(() => { if (document.visibilityState === 'visible') drawServer(); }, 3000);
