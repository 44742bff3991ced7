// The dashboards: executive, on-call, and one about a job. Their panels are the meter's (GET /api/v1/dashboards), one request each.

import { h, mark, say } from "../dom.js";
import { get } from "../feed.js";
import { duration, instant } from "../format.js";
import { address, go } from "../route.js";
import { Panel } from "./dashboards/panel.js";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const RANGES = { "1h": [HOUR_MS, "1 hour"], "24h": [DAY_MS, "24 hours"], "30d": [30 * DAY_MS, "30 days"], "1y": [365 * DAY_MS, "1 year"] };
const OFTEN_MS = 30_000;
const SELDOM_MS = 300_000;
const AGAIN_MS = 2000;
const AT_ONCE = 2;
/** The jobs that the box offers; any other may be typed. */
const OFFERED = 200;

export class Page {
  constructor({ meter, host }) {
    this.meter = meter;
    this.host = host;
    this.boards = null;
    this.turn = null;
    this.shown = "";
    this.panels = [];
    this.paused = false;
    this.askedMs = 0;
    this.title = h("h1", { tabindex: -1 }, "Dashboards");
    this.said = h("p", { class: "sub" });
    this.tabs = h("nav", { class: "ranges", "aria-label": "Dashboards" });
    this.ranges = h("nav", { class: "ranges", "aria-label": "Range" });
    this.job = h("input", { id: "dashboards-job", type: "search", list: "dashboards-jobs", autocomplete: "off", spellcheck: "false", dir: "auto" });
    this.jobs = h("datalist", { id: "dashboards-jobs" });
    this.jobLink = h("a", { hidden: true }, "Open its page");
    this.form = h("form", { class: "controls", hidden: true, onsubmit: (event) => this.pick(event) }, h("label", { for: "dashboards-job" }, "Job", this.job), h("button", { type: "submit" }, "Show"), this.jobLink, this.jobs);
    this.pause = h("button", { type: "button", class: "plain", "aria-pressed": "false", onclick: () => this.setPaused(!this.paused) }, "Pause");
    this.again = h("button", { type: "button", class: "plain", onclick: () => this.load() }, "Refresh");
    this.when = h("p", { class: "sub" });
    this.fault = h("p", { class: "notice", role: "alert", hidden: true });
    this.empty = h("div", { class: "empty", hidden: true });
    this.grid = h("div", { class: "panels" });
    this.all = [h("header", { class: "page-head" }, this.title, this.said), this.tabs, this.ranges, this.form, h("p", { class: "panels-line" }, this.when, this.again, this.pause), this.fault, this.empty, this.grid];
  }

  open(state, rest) {
    if (this.title.parentElement?.parentElement !== this.host) this.host.replaceChildren(...this.all);
    this.state = state;
    this.rest = rest;
    return this.show();
  }

  close() {
    this.turn?.abort();
    this.turn = null;
  }

  hear() {
    // The range ends at the instant of the figures: before the first of them nobody knows which.
    if (this.waits) this.load();
  }

  tick() {
    const board = this.board;
    if (!board || this.paused || document.hidden || this.turn !== null || !this.askedMs) return;
    if (Date.now() - this.askedMs > (this.rangeMs > DAY_MS ? SELDOM_MS : OFTEN_MS)) this.load();
  }

  setPaused(paused) {
    this.paused = paused;
    mark(this.pause, "aria-pressed", paused);
    say(this.pause, paused ? "Paused: go on" : "Pause");
    if (!paused) this.load();
  }

  pick(event) {
    event.preventDefault();
    go(this.link({ job: this.job.value.trim() }));
  }

  link({ name = this.name, range = this.state.get("range"), job = this.state.get("job") } = {}) {
    return address("dashboards", { range, job }, name);
  }

  get name() {
    return this.board?.name ?? this.rest;
  }

  get board() {
    if (!this.boards) return null;
    return this.boards.find((each) => each.name === this.rest) ?? (this.rest ? null : this.boards[0]);
  }

  get rangeMs() {
    return (RANGES[this.state.get("range")] ?? [this.board.range_s * 1000])[0];
  }

  async show() {
    try {
      this.boards ??= (await get("dashboards")).dashboards;
    } catch (trouble) {
      return this.fail(`The dashboards cannot be listed: ${trouble.message}.`);
    }
    const board = this.board;
    if (!board) return this.unknown();
    this.fault.hidden = true;
    say(this.title, board.title);
    say(this.said, board.answers);
    this.tabs.replaceChildren(...this.boards.map((each) => h("a", { href: this.link({ name: each.name, range: null }), "aria-current": each === board ? "page" : null }, each.title)));
    this.ranges.replaceChildren(...Object.entries(RANGES).map(([name, [ms, words]]) => h("a", { href: this.link({ range: name }), "aria-current": ms === this.rangeMs ? "true" : null }, words)));
    const needsJob = board.panels.some((each) => each.needs_job);
    this.form.hidden = !needsJob;
    this.job.value = this.state.get("job") ?? "";
    this.jobLink.href = address("job", {}, this.job.value);
    this.jobLink.hidden = this.job.value === "";
    const key = `${board.name} ${needsJob ? this.state.get("job") : ""}`;
    if (key !== this.shown) {
      this.shown = key;
      this.panels = board.panels.map((each) => new Panel(each));
      this.grid.replaceChildren(...this.panels.map((each) => each.element));
    }
    if (needsJob) this.offer();
    const lacksJob = needsJob && !this.state.get("job");
    this.grid.hidden = lacksJob;
    this.empty.hidden = !lacksJob;
    if (lacksJob) return this.close();
    return this.load();
  }

  /** Jobs to choose from. */
  async offer() {
    try {
      const { jobs } = await get(`jobs?limit=${OFFERED}&order=burn`);
      this.jobs.replaceChildren(...jobs.map((each) => h("option", { value: each.job_id })));
      const links = jobs.slice(0, 12).map((each) => h("li", {}, h("a", { href: this.link({ job: each.job_id }) }, h("bdi", {}, each.job_id))));
      this.empty.replaceChildren(h("p", {}, jobs.length ? "Which job? Type its id above, or take one of those that burn most:" : "There is no job yet: send events, or see how in docs/sources.md."), h("ul", { class: "plain-list" }, links));
    } catch (trouble) {
      this.empty.replaceChildren(h("p", {}, `Which job? Type its id above. (The list cannot be read: ${trouble.message}.)`));
    }
  }

  async load() {
    this.waits = this.meter.arrivedMs === null;
    if (this.waits) return say(this.when, "Waiting for the meter's clock…");
    if (this.meter.asOfMs === null) return say(this.when, "Nothing has happened in this store yet: send events, and prices.");
    this.turn?.abort();
    const turn = new AbortController();
    this.turn = turn;
    const toMs = Math.ceil((this.meter.asOfMs + 1) / 1000) * 1000;
    const span = { fromMs: toMs - this.rangeMs, toMs };
    const job = this.state.get("job") ?? "";
    say(this.when, `${instant(span.fromMs)} to ${instant(toMs)}, asked for…`);
    // In order, two at a time: so many of a reader the meter answers at once.
    const waiting = [...this.panels];
    const askNext = async () => {
      for (let panel = waiting.shift(); panel && !turn.signal.aborted; panel = waiting.shift()) await this.ask(panel, span, job, turn.signal);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, askNext));
    if (turn.signal.aborted) return;
    this.turn = null;
    this.askedMs = Date.now();
    say(this.when, `${instant(span.fromMs)} to ${instant(toMs)}${this.paused ? "" : `, again every ${duration(this.rangeMs > DAY_MS ? SELDOM_MS : OFTEN_MS)}`}`);
  }

  async ask(panel, span, job, signal) {
    const query = new URLSearchParams({ from_ms: span.fromMs, to_ms: span.toMs, ...(panel.about.needs_job ? { job } : {}) });
    panel.wait();
    try {
      panel.show(await this.patient(`panels/${panel.about.name}?${query}`, signal), span);
    } catch (trouble) {
      if (!signal.aborted) panel.fail(trouble);
    }
  }

  /** The answer; where others are asking, once more a little later. */
  async patient(path, signal) {
    try {
      return await get(path, { signal });
    } catch (trouble) {
      if (signal.aborted || trouble.status !== 503) throw trouble;
    }
    await new Promise((done) => setTimeout(done, AGAIN_MS));
    return get(path, { signal });
  }

  unknown() {
    this.grid.replaceChildren();
    this.shown = "";
    this.form.hidden = true;
    this.tabs.replaceChildren(...this.boards.map((each) => h("a", { href: this.link({ name: each.name, range: null }) }, each.title)));
    this.fail(`There is no dashboard “${this.rest}”: choose one.`);
  }

  fail(words) {
    say(this.fault, words);
    this.fault.hidden = false;
  }
}
