// The dashboards: executive, on-call, and one about a job. Their panels are the meter's (GET /api/v1/dashboards): one request for all of one, which answers each as it is ready.

import { h, mark, say } from "../dom.js";
import { get, lines } from "../feed.js";
import { duration, instant } from "../format.js";
import { address, go } from "../route.js";
import { Panel } from "./dashboards/panel.js";

const DAY_S = 86_400;
const RANGES = { "1h": "1 hour", "24h": "24 hours", "30d": "30 days", "1y": "1 year" };
const OFTEN_MS = 30_000;
const SELDOM_MS = 300_000;
const AGAIN_MS = 2000;
/** The jobs that the box offers; any other may be typed. */
const OFFERED = 200;

export class Page {
  constructor({ meter, host }) {
    this.meter = meter;
    this.host = host;
    this.boards = null;
    this.rangesS = null;
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
    // Before anything has happened there was no range to ask for.
    if (this.waits && this.meter.asOfMs !== null) this.load();
  }

  tick() {
    const board = this.board;
    if (!board || this.paused || document.hidden || this.turn !== null || !this.askedMs) return;
    if (Date.now() - this.askedMs > this.everyMs) this.load();
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

  get rangeS() {
    return this.rangesS[this.range] ?? this.board.range_s;
  }

  /** Its name, where the address has one that there is. */
  get range() {
    const name = this.state.get("range");
    return Object.hasOwn(this.rangesS, name ?? "") ? name : null;
  }

  get everyMs() {
    return this.rangeS > DAY_S ? SELDOM_MS : OFTEN_MS;
  }

  async show() {
    try {
      if (!this.boards) ({ dashboards: this.boards, ranges_s: this.rangesS } = await get("dashboards"));
    } catch (trouble) {
      return this.fail(`The dashboards cannot be listed: ${trouble.message}.`);
    }
    const board = this.board;
    if (!board) return this.unknown();
    this.fault.hidden = true;
    say(this.title, board.title);
    say(this.said, board.answers);
    this.tabs.replaceChildren(...this.boards.map((each) => h("a", { href: this.link({ name: each.name, range: null }), "aria-current": each === board ? "page" : null }, each.title)));
    this.ranges.replaceChildren(...Object.entries(this.rangesS).map(([name, s]) => h("a", { href: this.link({ range: name }), "aria-current": s === this.rangeS ? "true" : null }, RANGES[name] ?? name)));
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
    this.turn?.abort();
    const turn = new AbortController();
    const { signal } = turn;
    this.turn = turn;
    this.waits = false;
    const asked = { range: this.range, job: this.state.get("job") };
    const path = `dashboards/${encodeURIComponent(this.board.name)}?${new URLSearchParams(Object.entries(asked).filter(([, value]) => value))}`;
    const waiting = new Map(this.panels.map((each) => [each.about.name, each]));
    for (const panel of this.panels) panel.wait();
    const busy = [];
    let span = null;
    const hear = (said) => {
      if (signal.aborted) return;
      if (span === null) {
        span = { fromMs: said.from_ms, toMs: said.to_ms };
        say(this.when, said.to_ms === null ? "Nothing has happened in this store yet: send events, and prices." : `${instant(span.fromMs)} to ${instant(span.toMs)}, asked for…`);
        return;
      }
      const panel = waiting.get(said.name);
      if (!panel) return;
      if (said.error?.status === 503) return busy.push(panel);
      waiting.delete(said.name);
      if (said.error) panel.fail(said.error);
      else panel.show(said, span);
    };
    try {
      await this.patient((options) => lines(path, hear, options), signal);
      for (const panel of busy) await this.ask(panel, span, asked.job ?? "", signal);
    } catch (trouble) {
      if (!signal.aborted) for (const panel of waiting.values()) panel.fail(trouble);
    }
    if (signal.aborted) return;
    this.turn = null;
    this.waits = span?.toMs === null;
    if (this.waits) for (const panel of this.panels) panel.done();
    if (this.waits) return;
    this.askedMs = Date.now();
    say(this.when, `${span ? `${instant(span.fromMs)} to ${instant(span.toMs)}` : "No figures"}${this.paused ? "" : `, again every ${duration(this.everyMs)}`}`);
  }

  /** A panel by itself, a little later: others were asking. */
  async ask(panel, span, job, signal) {
    const query = new URLSearchParams({ from_ms: span.fromMs, to_ms: span.toMs, ...(panel.about.needs_job ? { job } : {}) });
    try {
      panel.show(await this.patient((options) => get(`panels/${panel.about.name}?${query}`, options), signal), span);
    } catch (trouble) {
      if (!signal.aborted) panel.fail(trouble);
    }
  }

  /** The answer; where others are asking, once more a little later. */
  async patient(ask, signal) {
    try {
      return await ask({ signal });
    } catch (trouble) {
      if (signal.aborted || trouble.status !== 503) throw trouble;
    }
    await new Promise((done) => setTimeout(done, AGAIN_MS));
    return ask({ signal });
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
