// The jobs table: one row a job, sorted and filtered, its cost ticking. A row keeps its element for as long as it shows.

import { byId, foreign, h, mark, reconcile, say, unseen } from "./dom.js";
import { count, exact, jobCost, money, percent, plural, times } from "./format.js";
import { Ticking } from "./meter.js";
import { sparkline } from "./spark.js";
import { SORTS } from "./filters.js";
import { burnBand, LIVE, ruleName } from "./words.js";

const COLUMNS = [
  ["job", "c-job"],
  ["owner", "c-owner"],
  ["state", "c-state"],
  ["gpus", "c-gpus num"],
  ["burn", "c-burn num"],
  ["ratio", "c-ratio"],
  [null, "c-spark", "Trend"],
  ["cost", "c-cost num"],
  ["use", "c-use num"],
];
const HOLD_MS = 4000;
const FULL = 100;

/** The address of a job's view. A lone surrogate, which JSON can spell, cannot stand in an address. */
export function jobHash(jobId) {
  return `#/job/${encodeURIComponent(String(jobId).replace(/[\uD800-\uDFFF]/gu, "\uFFFD"))}`;
}

export class Jobs {
  constructor(meter, filters, { onMore }) {
    Object.assign(this, { meter, filters, onMore, jobs: null, total: 0, rows: new Map(), touchedMs: 0 });
    this.host = byId("jobs");
    this.body = h("tbody", { role: "rowgroup" });
    this.heads = new Map();
    const head = COLUMNS.map(([name, cls, title]) => this.header(name, cls, title));
    this.table = h("table", { role: "table", class: "jobs-table", "aria-labelledby": "jobs-title" }, h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, head)), this.body);
    this.body.addEventListener("click", (event) => this.clicked(event));
    this.body.addEventListener("keydown", (event) => this.moved(event));
    for (const kind of ["pointermove", "pointerdown", "keydown"]) {
      this.body.addEventListener(kind, () => (this.touchedMs = Date.now()), { passive: true });
    }
    this.body.addEventListener("pointerleave", () => (this.touchedMs = 0));
    this.empty = h("div", { class: "empty" }, "Waiting for the first figures…");
    this.host.append(this.empty);
  }

  header(name, cls, title) {
    if (!name) return h("th", { role: "columnheader", scope: "col", class: cls }, title);
    const button = h("button", { type: "button", class: "sort", onclick: () => this.filters.sortBy(name) }, SORTS[name].title, h("span", { class: "arrow", "aria-hidden": "true" }));
    // On a phone the order is chosen in the filters, and the head is for those who hear it.
    const head = h("th", { role: "columnheader", scope: "col", class: cls }, button, h("span", { class: "head-words" }, SORTS[name].title));
    this.heads.set(name, head);
    return head;
  }

  show(jobs, total) {
    this.jobs = jobs;
    this.total = total ?? 0;
    for (const job of jobs) this.row(job).ticking.hear(job.cost_usd, job.usd_per_hour_now);
    const present = new Set(jobs.map((job) => job.job_id));
    for (const id of this.rows.keys()) if (!present.has(id)) this.rows.delete(id);
    this.filters.offer(jobs);
    this.render(false);
  }

  row(job) {
    let row = this.rows.get(job.job_id);
    if (!row) this.rows.set(job.job_id, (row = new Row(job.job_id, this.meter)));
    return row;
  }

  render(asked = true) {
    if (!this.jobs) return;
    let shown = this.filters.apply([...this.jobs]);
    // Rows do not change places under the hand of somebody who is about to click one.
    if (!asked && Date.now() - this.touchedMs < HOLD_MS) shown = this.held(shown);
    for (const [name, head] of this.heads) mark(head, "aria-sort", name === this.filters.sort ? (this.filters.up ? "ascending" : "descending") : null);
    this.say(shown.length);
    if (shown.length === 0) return this.showEmpty();
    if (this.table.parentNode !== this.host) this.host.replaceChildren(this.table);
    reconcile(this.body, shown, (job) => job.job_id, (job) => this.row(job).element, (_, job) => this.row(job).update(job));
    this.tick();
  }

  held(shown) {
    const place = new Map([...this.body.children].map((child, index) => [child.key, index]));
    const at = (job) => place.get(job.job_id) ?? Infinity;
    return shown.map((job, index) => ({ job, index })).sort((a, b) => at(a.job) - at(b.job) || a.index - b.index).map((each) => each.job);
  }

  say(shown) {
    const all = this.jobs.length;
    const words = this.filters.any ? `${shown} of ${plural(all, "job")}` : plural(all, "job");
    const full = all === FULL ? ", those that burn most" : "";
    say(byId("count"), all ? words + full : "");
    if (all === FULL && !this.more) {
      this.more = h("button", { type: "button", class: "plain", onclick: () => this.onMore() }, "Show up to 1,000");
      byId("count").after(this.more);
    } else if (all !== FULL && this.more) {
      this.more.remove();
      this.more = null;
    }
  }

  showEmpty() {
    const words = this.jobs.length
      ? [h("p", {}, "No job matches these filters."), h("button", { type: "button", onclick: () => this.filters.clear() }, "Clear the filters")]
      : [
          h("p", { class: "lead" }, "No jobs yet. The meter is running and waits for events."),
          h("p", {}, "A job needs two: one when it gets its GPUs, one when it ends. Save these lines as ", h("code", {}, "events.jsonl"), " and send them by ", h("code", {}, "trainfare publish events.jsonl"), ":"),
          h("pre", { tabindex: 0 }, `{"topic": "jobs", "value": {"id": "1", "source": "me", "time_ms": ${Date.now()}, "job_id": "run-7",\n  "type": "started", "gpu_count": 8, "gpu_type": "H100", "owner": "ada", "team": "vision"}}`.replace("\n ", "")),
          h("p", {}, "To see a whole fleet instead: ", h("code", {}, "trainfare demo"), "."),
        ];
    this.empty.replaceChildren(...words);
    this.host.replaceChildren(this.empty);
  }

  tick() {
    for (const row of this.rows.values()) if (row.element.isConnected) row.tick();
  }

  clicked(event) {
    if (event.target.closest("a, button") || event.defaultPrevented || String(getSelection())) return;
    const row = event.target.closest("tr");
    row?.querySelector("a.job-link")?.click();
  }

  moved(event) {
    const way = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    const next = way && event.target.closest("tr")?.[way]?.querySelector("a.job-link");
    if (!next) return;
    event.preventDefault();
    next.focus();
  }

  /** Where the focus returns to when the job's view closes. */
  linkOf(jobId) {
    const row = this.rows.get(jobId);
    return row?.element.isConnected ? row.link : null;
  }
}

class Row {
  constructor(jobId, meter) {
    this.ticking = new Ticking(meter);
    this.spark = sparkline();
    const cell = (cls, ...children) => h("td", { role: "cell", class: cls }, children);
    const text = (cls) => h("span", { class: cls });
    this.link = h("a", { class: "job-link", href: jobHash(jobId), title: jobId }, foreign(jobId));
    Object.assign(this, { flags: text("flags"), project: text("dim"), owner: h("bdi", { class: "who" }), team: h("bdi", { class: "dim" }), state: text("state") });
    Object.assign(this, { gpus: text("gpus"), kind: text("dim"), burn: text("money strong"), expected: text("dim money"), pill: text("pill"), pillWords: unseen("") });
    Object.assign(this, { cost: text("money"), lost: text("dim money"), use: text("use"), bar: h("span", { class: "meterbar", "aria-hidden": "true" }, h("i")) });
    this.element = h(
      "tr",
      { role: "row" },
      cell("c-job", this.link, h("div", { class: "second" }, this.flags, this.project)),
      cell("c-owner", this.owner, this.team),
      cell("c-state", this.state),
      cell("c-gpus num", this.gpus, this.kind),
      cell("c-burn num", this.burn, this.expected),
      cell("c-ratio", this.pill, this.pillWords),
      cell("c-spark", this.spark.svg),
      cell("c-cost num", this.cost, this.lost),
      cell("c-use num", this.use, this.bar),
    );
  }

  update(job) {
    this.job = job;
    const { band, sign, words } = burnBand(job);
    mark(this.element, "data-band", band);
    mark(this.element, "data-alert", ["page", "ticket"].find((severity) => job.alerts?.some((alert) => alert.severity === severity)) ?? null);
    this.flag(job.alerts ?? []);
    say(this.project, [job.project, job.experiment].filter(Boolean).join(" / "));
    say(this.owner, job.owner || "no owner");
    say(this.team, job.team || "");
    say(this.state, job.state ?? "");
    mark(this.state, "data-state", job.state);
    say(this.gpus, count(job.gpu_count));
    say(this.kind, job.gpu_type || "");
    say(this.burn, money(job.usd_per_hour_now), exact(job.usd_per_hour_now));
    say(this.expected, LIVE.has(job.state) && Number(job.expected_usd_per_hour) > 0 ? `of ${money(job.expected_usd_per_hour)}` : "", exact(job.expected_usd_per_hour));
    const rated = job.ratio !== null && job.ratio !== undefined && sign;
    say(this.pill, rated ? `${sign} ${times(job.ratio)}` : "–", `${words}: ${money(job.usd_per_hour_now)}/h, expected ${money(job.expected_usd_per_hour)}/h`);
    say(this.pillWords, `, ${words}`);
    this.spark.draw(job.sparkline, band);
    say(this.lost, Number(job.lost_cost_usd) >= 0.005 ? `${money(job.lost_cost_usd)} lost` : "", exact(job.lost_cost_usd));
    const low = job.productive_ratio !== null && job.productive_ratio < 0.2;
    say(this.use, low ? `▽ ${percent(job.productive_ratio)}` : percent(job.productive_ratio), low ? "its GPUs hardly work" : "");
    mark(this.use, "data-low", low ? "" : null);
    this.bar.hidden = job.productive_ratio === null || job.productive_ratio === undefined;
    mark(this.bar, "data-low", low ? "" : null);
    this.bar.firstElementChild.style.width = `${Math.round(Math.min(1, job.productive_ratio ?? 0) * 100)}%`;
  }

  flag(alerts) {
    const text = alerts.map((alert) => `${alert.severity}: ${ruleName(alert.rule)}`).join(", ");
    if (this.flagged === text) return;
    this.flagged = text;
    this.flags.replaceChildren(...alerts.map((alert) => h("span", { class: "flag", "data-severity": alert.severity, title: ruleName(alert.rule) }, alert.severity, unseen(`: ${ruleName(alert.rule)}`))));
  }

  tick() {
    const gpuHours = this.job?.unpriced_gpu_h;
    const part = gpuHours > 0 ? `${count(gpuHours)} GPU-hours have no price; ` : this.job?.unpriced_compute_h > 0 ? "time without GPUs has no price; " : "";
    say(this.cost, jobCost(this.ticking.value, this.job), part + exact(this.job?.cost_usd));
  }
}
