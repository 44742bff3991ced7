// The jobs table: one row a job, sorted and filtered, its cost ticking. A row keeps its element for as long as it shows.

import { byId, charge, even, foreign, h, mark, reconcile, say, unseen } from "./dom.js";
import { count, exact, jobCost, money, percent, plural, times } from "./format.js";
import { Ticking } from "./meter.js";
import { sparkline } from "./spark.js";
import { SORTS, STATE_WORDS } from "./filters.js";
import { go } from "./route.js";
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
const whole = (number) => number.toLocaleString("en-US");

/** The address of a job's view. A lone surrogate, which JSON can spell, cannot stand in an address. */
export function jobHash(jobId) {
  return `#/job/${encodeURIComponent(String(jobId).replace(/[\uD800-\uDFFF]/gu, "\uFFFD"))}`;
}

export class Jobs {
  constructor(meter, filters) {
    Object.assign(this, { meter, filters, page: null, jobs: null, rows: new Map(), touchedMs: 0, focus: null, awaited: null });
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
    this.notice = h("p", { class: "notice", role: "status", hidden: true });
    this.previous = h("a", { class: "button", rel: "prev" }, "← Previous");
    this.next = h("a", { class: "button", rel: "next" }, "Next →");
    this.pageSaid = h("span", { class: "dim" });
    for (const link of [this.previous, this.next]) link.addEventListener("click", () => (this.focus = "top"));
    this.pager = h("nav", { class: "pager", "aria-label": "Pages of the list", hidden: true }, this.previous, this.pageSaid, this.next);
    this.host.append(this.empty);
    this.host.before(this.notice);
    this.host.after(this.pager);
  }

  header(name, cls, title) {
    if (!name) return h("th", { role: "columnheader", scope: "col", class: cls }, title);
    const button = h("button", { type: "button", class: "sort", onclick: () => this.filters.sortBy(name) }, SORTS[name].title, h("span", { class: "arrow", "aria-hidden": "true" }));
    // On a phone the order is chosen in the filters, and the head is for those who hear it.
    const head = h("th", { role: "columnheader", scope: "col", class: cls }, button, h("span", { class: "head-words" }, SORTS[name].title));
    this.heads.set(name, head);
    return head;
  }

  /** A page of the list came; `isOther`: of another choice, else of the same one again. */
  show(page, isOther) {
    this.page = page;
    this.notice.hidden = true;
    // All rows of this page went while it was looked at: the first one is there.
    if (page.jobs.length === 0 && page.matched > 0 && this.filters.cursor) return go(this.filters.address({ cursor: "" }), { replace: true });
    this.take(page.jobs);
    this.filters.offer(page.jobs);
    this.render(isOther);
    if (isOther && this.focus === "top") byId("jobs-title").scrollIntoView({ block: "start" });
    else if (isOther && this.focus) {
      const rows = [...this.body.querySelectorAll("a.job-link")];
      (this.focus === "first" ? rows[0] : rows.at(-1))?.focus();
    }
    if (isOther) this.focus = null;
    const link = this.awaited && this.linkOf(this.awaited);
    if (link && [document.body, byId("main")].includes(document.activeElement)) link.focus({ preventScroll: true });
    this.awaited = null;
  }

  /** Figures of the stream, for those of the rows that it carries. */
  hear(jobs) {
    if (!this.page) return;
    const fresh = new Map(jobs.map((job) => [job.job_id, job]));
    this.take(this.page.jobs.map((job) => (job.job_id !== null && fresh.has(job.job_id) ? { ...job, ...fresh.get(job.job_id) } : job)));
    this.render(false);
  }

  take(jobs) {
    this.jobs = jobs;
    for (const job of jobs) this.row(job).ticking.hear(job.cost_usd, job.usd_per_hour_now);
    const present = new Set(jobs.map(keyOf));
    for (const key of this.rows.keys()) if (!present.has(key)) this.rows.delete(key);
  }

  row(job) {
    const key = keyOf(job);
    let row = this.rows.get(key);
    if (!row) this.rows.set(key, (row = new Row(job, this.meter)));
    return row;
  }

  render(asked = true) {
    if (!this.jobs) return;
    let shown = this.jobs;
    // Rows do not change places under the hand of somebody who is about to click one.
    if (!asked && Date.now() - this.touchedMs < HOLD_MS) shown = this.held(shown);
    for (const [name, head] of this.heads) mark(head, "aria-sort", name === this.filters.sort ? (this.filters.up ? "ascending" : "descending") : null);
    this.say();
    if (shown.length === 0) return this.showEmpty();
    if (this.table.parentNode !== this.host) this.host.replaceChildren(this.table);
    reconcile(this.body, shown, keyOf, (job) => this.row(job).element, (_, job) => this.row(job).update(job, this.filters));
    this.tick();
    even(this.table);
  }

  held(shown) {
    const place = new Map([...this.body.children].map((child, index) => [child.key, index]));
    const at = (job) => place.get(keyOf(job)) ?? Infinity;
    return shown.map((job, index) => ({ job, index })).sort((a, b) => at(a.job) - at(b.job) || a.index - b.index).map((each) => each.job);
  }

  say() {
    const { matched, total, rows, position, next, previous } = this.page;
    const kind = STATE_WORDS[this.filters.state.value];
    const trials = rows < matched ? `, in ${plural(rows, "row")}` : "";
    say(byId("count"), `${whole(matched)} of ${whole(total)} ${total === 1 ? kind.slice(0, -1) : kind}${trials}`);
    const order = SORTS[this.filters.sort].title.toLowerCase();
    say(byId("jobs-title"), this.filters.sort === "burn" && !this.filters.up ? "Jobs by burn rate" : `Jobs by ${order === "vs expected" ? "burn against what was expected" : order}`);
    this.pager.hidden = !next && !previous;
    say(this.pageSaid, `Rows ${whole(position + 1)} to ${whole(position + this.jobs.length)} of ${whole(rows)}`);
    for (const [link, cursor] of [[this.previous, previous], [this.next, next]]) {
      link.hidden = !cursor;
      if (cursor) mark(link, "href", this.filters.address({ cursor }));
    }
  }

  /** Why there is no newer list; the old one stays. */
  fail(trouble) {
    const isCursor = trouble.status === 400 && this.filters.cursor;
    if (isCursor) return go(this.filters.address({ cursor: "" }), { replace: true });
    this.notice.hidden = trouble.status === 401;
    const again = trouble.status === 400 ? "" : " Trying again.";
    say(this.notice, `The list could not be read: ${trouble.message}.${again}`);
  }

  slow(isSlow) {
    this.host.classList.toggle("dimmed", isSlow);
    if (isSlow) say(byId("count"), "Searching…");
    else if (this.page) this.say();
  }

  showEmpty() {
    const isLive = this.filters.state.value === "live";
    const ended = isLive ? h("p", {}, h("a", { class: "button", href: this.filters.address({ state: "all", cursor: "" }) }, "Look among those that ended, too")) : null;
    const none = [h("p", { class: "lead" }, "No job was live at the last instant of this store."), ended];
    const words = this.meter.atRest && !this.filters.any ? none : this.filters.any
      ? [h("p", {}, `No job matches these filters, of ${plural(this.page.total, isLive ? "live job" : "job")}.`), h("p", {}, h("button", { type: "button", onclick: () => this.filters.clear() }, "Clear the filters")), ended]
      : [
          h("p", { class: "lead" }, "No jobs yet: none is live. The meter is running and waits for events."),
          h("p", {}, "A job needs two: one when it gets its GPUs, one when it ends. Save these lines as ", h("code", {}, "events.jsonl"), " and send them by ", h("code", {}, "trainfare publish events.jsonl"), ":"),
          h("pre", { tabindex: 0 }, `{"topic": "jobs", "value": {"id": "1", "source": "me", "time_ms": ${Date.now()}, "job_id": "run-7",\n  "type": "started", "gpu_count": 8, "gpu_type": "H100", "owner": "ada", "team": "vision"}}`.replace("\n ", "")),
          h("p", {}, "To see a whole fleet instead: ", h("code", {}, "trainfare demo"), "."),
          ended,
        ];
    this.body.replaceChildren();
    this.empty.replaceChildren(...words.filter(Boolean));
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
    const row = way && event.target.closest("tr");
    if (!row) return;
    const next = row[way]?.querySelector("a.job-link");
    const page = event.key === "ArrowDown" ? this.next : this.previous;
    if (!next && page.hidden) return;
    event.preventDefault();
    if (next) return next.focus();
    // Beyond the last row the next page begins.
    this.focus = event.key === "ArrowDown" ? "first" : "last";
    location.hash = page.getAttribute("href");
  }

  /** Where the focus returns to when the job's view closes. */
  linkOf(jobId) {
    const row = this.rows.get(`job ${jobId}`);
    return row?.element.isConnected ? row.link : null;
  }
}

const keyOf = (job) => (job.sweep ? `sweep ${job.sweep.key}` : `job ${job.job_id}`);

class Row {
  constructor(job, meter) {
    const jobId = job.sweep ? job.sweep.name : job.job_id;
    this.ticking = new Ticking(meter);
    this.spark = sparkline();
    const cell = (cls, ...children) => h("td", { role: "cell", class: cls }, children);
    const text = (cls) => h("span", { class: cls });
    this.link = h("a", { class: "job-link", href: job.sweep ? "#/" : jobHash(jobId), title: jobId }, foreign(jobId));
    Object.assign(this, { flags: text("flags"), project: h("bdi", { class: "dim project" }), found: h("bdi", { class: "dim found" }), trials: text("trials"), owner: h("bdi", { class: "who" }), team: h("bdi", { class: "dim" }), state: text("state") });
    Object.assign(this, { gpus: text("gpus"), kind: text("dim"), burn: text("money strong"), expected: text("dim money"), pill: text("pill"), pillWords: unseen("") });
    Object.assign(this, { cost: text("money"), lost: text("dim money"), use: text("use"), bar: h("span", { class: "meterbar", "aria-hidden": "true" }, h("i")) });
    this.element = h(
      "tr",
      { role: "row" },
      cell("c-job", this.link, h("div", { class: "second" }, this.flags, this.trials, this.project, this.found)),
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

  update(job, filters) {
    this.job = job;
    if (job.sweep) this.sweep(job, filters);
    const { band, sign, words } = burnBand(job);
    mark(this.element, "data-band", band);
    mark(this.element, "data-alert", ["page", "ticket"].find((severity) => job.alerts?.some((alert) => alert.severity === severity)) ?? null);
    this.flag(job.alerts ?? []);
    const names = [job.project, job.sweep ? "" : job.experiment].filter(Boolean).join(" / ");
    say(this.project, names, names);
    say(this.found, job.nodes?.length ? `on ${job.nodes.join(", ")}` : "");
    const many = job.sweep?.owners > 1 ? `${job.sweep.owners} owners` : "no owner";
    say(this.owner, job.owner || many, job.owner || many);
    say(this.team, job.team || "", job.team || "");
    say(this.state, job.state || (job.sweep ? "several" : ""));
    mark(this.state, "data-state", job.state);
    // What is known by samples alone has said no number.
    const unsaid = job.state === "metered" && !job.gpu_count;
    say(this.gpus, unsaid ? "–" : count(job.gpu_count), unsaid ? "no event says how many; by samples alone" : "");
    say(this.kind, job.gpu_type || "");
    charge(this.burn, job.usd_per_hour_now);
    const isExpected = LIVE.has(job.state) && Number(job.expected_usd_per_hour) > 0;
    charge(this.expected, isExpected ? job.expected_usd_per_hour : null, { words: (text) => (isExpected ? `of ${text}` : "") });
    const rated = job.ratio !== null && job.ratio !== undefined && sign;
    say(this.pill, rated ? `${sign} ${times(job.ratio)}` : "–", `${words}: ${money(job.usd_per_hour_now)}/h, expected ${money(job.expected_usd_per_hour)}/h`);
    say(this.pillWords, `, ${words}`);
    this.spark.svg.toggleAttribute("hidden", Boolean(job.sweep));
    if (!job.sweep) this.spark.draw(job.sparkline, band);
    const isLost = Number(job.lost_cost_usd) >= 0.005;
    charge(this.lost, isLost ? job.lost_cost_usd : null, { words: (text) => (isLost ? `${text} lost` : "") });
    const low = job.productive_ratio !== null && job.productive_ratio < 0.2;
    say(this.use, low ? `▽ ${percent(job.productive_ratio)}` : percent(job.productive_ratio), low ? "its GPUs hardly work" : "");
    mark(this.use, "data-low", low ? "" : null);
    this.bar.hidden = job.productive_ratio === null || job.productive_ratio === undefined;
    mark(this.bar, "data-low", low ? "" : null);
    this.bar.firstElementChild.style.width = `${Math.round(Math.min(1, job.productive_ratio ?? 0) * 100)}%`;
  }

  /** The row of a sweep opens its jobs. */
  sweep(job, filters) {
    mark(this.link, "href", filters.address({ sweep: job.sweep.key, cursor: "" }));
    mark(this.element, "data-sweep", "");
    say(this.trials, `▸ ${plural(job.sweep.jobs, "job")}`, "Open to see its jobs");
  }

  flag(alerts) {
    const text = alerts.map((alert) => `${alert.severity}: ${ruleName(alert.rule)}`).join(", ");
    if (this.flagged === text) return;
    this.flagged = text;
    this.flags.replaceChildren(...alerts.map((alert) => h("span", { class: "flag", "data-severity": alert.severity, title: ruleName(alert.rule) }, alert.severity, unseen(`: ${ruleName(alert.rule)}`))));
  }

  tick() {
    const gpuHours = this.job?.unpriced_gpu_h;
    const part = gpuHours > 0 ? `${count(gpuHours)} GPU-hours have no price; ` : this.job?.unpriced_compute_h > 0 ? "time without GPUs or energy has no price; " : "";
    const value = this.ticking.value;
    charge(this.cost, value, { words: (text) => jobCost(value, this.job, text), tip: part + exact(this.job?.cost_usd) });
  }
}
