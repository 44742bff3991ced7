// Budgets: each with what is used of it, and one with its spend over the period, its levels, dearest jobs, actions and override.

import { amount, dollars, even, foreign, h, mark, reconcile, row, say, table, visible } from "../dom.js";
import { axisMoney, day, decimal, exact, instant, money, nano, near, percent, plural, zone } from "../format.js";
import { alertHash } from "../alerts.js";
import { aboutOf, Budgets, forecastOf, PER, spent } from "../budgets.js";
import { raise } from "./raise.js";
import { ask } from "../ask.js";
import { get } from "../feed.js";
import { jobHash } from "../jobs.js";
import { address } from "../route.js";
import { TimeFrame } from "../timeframe.js";

const AGAIN_MS = 10_000;
const SLOW_MS = 300;
const HOUR_MS = 3_600_000;
const SOON_RATIO = 0.8;
const OVERRIDE_HOURS = 24;
const COLUMNS = [
  { title: "Budget", class: "" },
  { title: "About", class: "" },
  { title: "Period", class: "fix" },
  { title: "Used", class: "c-share" },
  { title: "Spent of limit", class: "" },
  { title: "Forecast", class: "" },
  { title: "Actions", class: "" },
];
const LEVELS = [
  { title: "Level", class: "" },
  { title: "Reached", class: "" },
  { title: "When", class: "fix" },
];
const JOBS = [
  { title: "Job", class: "wide" },
  { title: "Owner", class: "" },
  { title: "State", class: "fix" },
  { title: "Cost in the period", class: "num fix" },
  { title: "Of the budget’s spend", class: "num fix" },
];
const ACTIONS = [
  { title: "When", class: "fix" },
  { title: "Action", class: "fix" },
  { title: "State", class: "fix" },
  { title: "Job", class: "wide" },
  { title: "Used then", class: "num fix" },
  { title: "Reason or answer", class: "wide" },
];
const STATES = {
  planned: "dry run: would have been asked for",
  requested: "asked for, not answered yet",
  acknowledged: "the receiver took it",
  refused: "the receiver refused it",
  overridden: "suspended by an override",
  expired: "not answered in time, or not needed any more",
};

/** The address of one budget: its name, and what it is about, of which several have the same name. */
function hashOf(budget) {
  const { kind, name } = budget.subject ?? { kind: "", name: "" };
  return address("budgets", { kind, name }, budget.budget || "own");
}

const nameOf = (budget) => visible(budget.budget || "a job’s own budget");

function used(budget) {
  const ratio = budget.used?.ratio ?? null;
  if (ratio === null) return h("span", { class: "dim" }, "not judged yet");
  const words = `${percent(ratio)}${ratio >= 1 ? ", used up" : ""}`;
  return h("span", { class: "share", "data-met": String(ratio >= 1) }, h("progress", { max: 1, value: Math.min(ratio, 1), "aria-label": `Used: ${words}` }), h("span", {}, words));
}

export class Page {
  constructor(parts) {
    Object.assign(this, parts, { turn: 0, state: null, rest: "", answer: null, detail: null, askedMs: 0 });
    this.dialog = new Budgets(parts.meter, parts.acts, { isQuiet: true });
    this.count = h("p", { class: "count", role: "status" });
    this.notice = h("p", { class: "notice", role: "status", hidden: true });
    this.needs = h("p", { class: "needs", hidden: true });
    this.table = table(COLUMNS, { caption: "Budgets, those that are used most first", labels: "budgets-table" });
    this.empty = h("div", { class: "empty", hidden: true });
    this.set = h("button", { type: "button", class: "act", hidden: true, onclick: () => this.dialog.set().then(() => this.read()) }, "Set a budget…");
    this.list = h("div", {}, h("div", { class: "page-head" }, h("h1", {}, "Budgets"), this.count, this.set), this.needs, h("div", { class: "scroller" }, this.table.element), this.empty);
    addEventListener("zonechange", () => this.redraw());
  }

  open(state, rest) {
    Object.assign(this, { state, rest, detail: null, shown: {} });
    if (rest) this.makeOne();
    else {
      this.list.insertBefore(this.notice, this.list.children[2]);
      this.host.replaceChildren(this.list);
    }
    this.notice.hidden = true;
    this.read();
  }

  close() {
    this.turn += 1;
    this.state = null;
    this.host.replaceChildren();
  }

  hear() {
    if (this.state !== null && !document.hidden && Date.now() - this.askedMs >= AGAIN_MS) this.read();
  }

  redraw() {
    this.shown = {};
    if (this.state === null) return;
    if (this.rest && this.detail) this.showOne(this.detail);
    else if (this.answer) this.show();
  }

  async read() {
    const turn = (this.turn += 1);
    this.askedMs = Date.now();
    const slow = setTimeout(() => {
      if (turn !== this.turn) return;
      this.host.classList.add("waiting");
      if (!this.rest) say(this.count, "Reading the budgets…");
    }, SLOW_MS);
    try {
      if (this.rest) {
        const budget = this.rest === "own" ? "" : this.rest;
        const found = await get(`budgets/detail?${new URLSearchParams({ budget, kind: this.state.get("kind") ?? "", name: this.state.get("name") ?? "" })}`);
        if (turn === this.turn) this.showOne(found);
      } else {
        const found = await get("budgets");
        if (turn !== this.turn) return;
        this.answer = found;
        this.dialog.listed = found.budgets;
        this.show();
      }
      if (turn === this.turn) this.notice.hidden = true;
    } catch (trouble) {
      if (turn !== this.turn || trouble.status === 401) return;
      this.notice.hidden = false;
      say(this.notice, trouble.status === 404 ? `${visible(trouble.message)}.` : `Could not read the budgets: ${visible(trouble.message)}. Trying again.`);
    } finally {
      clearTimeout(slow);
      if (turn === this.turn) this.host.classList.remove("waiting");
    }
  }

  get now() {
    return this.meter.timeMs ?? this.answer?.as_of_ms ?? this.detail?.as_of_ms ?? 0;
  }

  show() {
    const { budgets, may_act: mayAct, acts_need: need } = this.answer;
    const up = budgets.filter((each) => (each.used?.ratio ?? 0) >= 1).length;
    say(this.count, `${plural(budgets.length, "budget")}${up ? `, ${up} used up` : ""}`);
    this.set.hidden = !mayAct;
    this.needs.hidden = mayAct || !need;
    say(this.needs, need ? `Here no budget can be set or overridden: ${need}.` : "");
    this.table.element.hidden = !budgets.length;
    this.empty.hidden = budgets.length > 0;
    if (!budgets.length) this.empty.replaceChildren(h("p", { class: "lead" }, "No budget yet."), h("p", {}, mayAct ? "Set one by the button above, or publish a record (docs/budgets.md)." : "Publish a record of the kind budget (docs/budgets.md), or name one in a job’s events."));
    reconcile(this.table.body, budgets, (each) => JSON.stringify([each.budget, each.subject ?? null]), () => h("tr", { role: "row" }), (element, budget) => this.update(element, budget));
    even(this.table.element);
  }

  update(element, budget) {
    const state = JSON.stringify([budget, day(this.now), zone()]);
    if (element.state === state) return;
    element.state = state;
    const ratio = budget.used?.ratio ?? null;
    mark(element, "data-used", ratio === null ? "new" : ratio >= 1 ? "up" : ratio >= SOON_RATIO ? "soon" : "ok");
    const taken = (budget.actions ?? []).map(({ rung, mode, state: became, jobs }) => `${mode === "dry_run" ? "dry run: " : ""}${rung} ${became}${jobs > 1 ? ` (${plural(jobs, "job")})` : ""}`).join(", ");
    const override = budget.override ? `actions suspended until ${budget.override.until_ms === null ? "for ever" : near(budget.override.until_ms, this.now)}` : "";
    const link = budget.used ? h("a", { href: hashOf(budget) }, foreign(nameOf(budget))) : foreign(nameOf(budget));
    const match = Object.entries(budget.match).map(([field, value]) => `${field} ${visible(value)}`).join(", ") || "all jobs";
    element.replaceChildren(
      ...row(COLUMNS, [
        link,
        foreign(aboutOf(budget) || match),
        PER[budget.per] ?? "",
        used(budget),
        budget.used ? h("span", {}, spent(budget.used)) : "",
        budget.used ? forecastOf(budget, this.now) : "first figures come within two minutes",
        [taken, override].filter(Boolean).join("; ") || "none",
      ]).children,
    );
  }

  makeOne() {
    this.chart = null;
    this.frame = new TimeFrame({ left: 76, right: 10 });
    this.title = h("h1", { tabindex: -1 }, nameOf({ budget: this.rest === "own" ? "" : this.rest }));
    this.about = h("p", { class: "about" });
    this.figures = h("div", { class: "budget-figures" });
    this.plot = h("div", { class: "plot" });
    this.spendAs = h("div", {});
    this.levels = h("div", {});
    this.jobs = h("div", {});
    this.acted = h("div", {});
    const part = (id, title, ...inside) => h("section", { class: "panel", "aria-labelledby": id }, h("h2", { id }, title), ...inside);
    this.parts = h(
      "div",
      { class: "one-alert", hidden: true },
      part("budget-spend", "Spent in its period", this.plot, this.spendAs),
      h("div", { class: "aside" }, part("budget-levels", "Levels", this.levels), part("budget-acted", "Actions and override", this.acted)),
      part("budget-jobs", "Its dearest jobs", this.jobs),
    );
    this.host.replaceChildren(h("p", { class: "back" }, h("a", { href: address("budgets") }, "← All budgets")), h("header", { class: "page-head" }, this.title), this.about, this.notice, this.figures, this.parts);
    this.title.focus({ preventScroll: true });
  }

  fill(name, host, value, make) {
    const state = JSON.stringify([value, day(this.now), zone()]);
    if (this.shown[name] === state) return;
    this.shown[name] = state;
    host.replaceChildren(...[make()].flat().filter(Boolean));
  }

  showOne(found) {
    this.detail = found;
    this.parts.hidden = false;
    const { budget, levels } = found;
    const ends = budget.period_end_ms === null ? "" : ` until ${instant(budget.period_end_ms)}`;
    const starts = budget.period_start_ms === null ? "" : `, from ${instant(budget.period_start_ms)}`;
    const by = budget.set ? [" · set by ", foreign(visible(budget.set.by)), ` ${near(budget.set.time_ms, this.now)}`, budget.set.comment ? [": ", h("q", {}, foreign(visible(budget.set.comment)))] : ""].flat() : [];
    this.fill("about", this.about, budget, () => [foreign(aboutOf(budget)), ` · ${PER[budget.per] ?? budget.per}${starts}${ends}`, ...by]);
    this.fill("figures", this.figures, budget, () => [used(budget), h("p", {}, spent(budget.used)), budget.used.ratio >= 1 ? null : h("p", {}, forecastOf(budget, this.now))]);
    this.fill("levels", this.levels, levels, () => this.ladder(levels));
    this.fill("jobs", this.jobs, [found.jobs, found.jobs_left_out], () => this.dearest(found));
    this.fill("acted", this.acted, [found.actions, budget.override, found.may_act, found.acts_need], () => this.actions(found));
    this.fill("spend", this.spendAs, [found.spend, budget.used], () => this.asTable(found));
    this.draw(found);
  }

  /** What was spent by the end of each step, exactly. */
  sums({ spend }) {
    let sum = 0n;
    return spend.map(([at, usd]) => {
      sum += nano(usd) ?? 0n;
      return { at, usd, sum: decimal(sum) };
    });
  }

  async draw(found) {
    const steps = this.sums(found);
    const limit = found.budget.used.usd?.limit ?? null;
    if (!steps.length) {
      this.plot.replaceChildren(h("p", { class: "empty" }, "Nothing was spent in the period yet."));
      return;
    }
    const module = await import("../timechart.js").catch(() => null);
    if (module === null) return this.plot.replaceChildren(h("p", {}, "What draws the chart could not be loaded: load the page again."));
    if (found !== this.detail) return;
    this.chart ??= new module.TimeChart(this.plot, { frame: this.frame, height: 200, yWanted: 3, format: (value, short) => (short ? axisMoney(value) : money(value)) });
    const asOf = found.as_of_ms;
    const xs = [steps[0].at, ...steps.map((each) => Math.min(each.at + found.step_ms, asOf))];
    const values = [0, ...steps.map((each) => Number(each.sum))];
    const series = [{ name: "spent", kind: "line", color: "--burn", area: "--burn-fill", values, texts: ["$0.00", ...steps.map((each) => exact(each.sum))] }];
    if (limit !== null) series.push({ name: "limit", kind: "line", color: "--run", dash: [5, 4], width: 1.75, values: xs.map(() => Number(limit)), texts: xs.map(() => exact(limit)) });
    this.frame.span(xs[0], xs.at(-1));
    this.chart.draw({ xs, series, label: "Spent so far", say: `Spent from ${instant(xs[0])} to ${instant(xs.at(-1))}: ${money(steps.at(-1).sum)}${limit === null ? "" : ` of ${money(limit)}, the dashed line`}` });
  }

  asTable(found) {
    const steps = this.sums(found);
    if (!steps.length) return [];
    const columns = [
      { title: found.step_ms === HOUR_MS ? "Hour" : "Day (UTC)", class: "fix" },
      { title: "Spent", class: "num" },
      { title: "In all", class: "num" },
    ];
    const grid = table(columns, { caption: "Spent in each step of the period", labels: "spend-table" });
    for (const each of steps) grid.body.append(row(columns, [found.step_ms === HOUR_MS ? near(each.at, this.now) : day(each.at, false), dollars(each.usd), dollars(each.sum)]));
    even(grid.element);
    const words = found.budget.used.usd ? "" : " The budget limits no dollars.";
    return [h("p", { class: "sub" }, "The ledger’s sum up to the minute that was judged last: ", amount(money(steps.at(-1).sum), exact(steps.at(-1).sum)), `.${words}`), h("details", {}, h("summary", {}, "The same as a table"), h("div", { class: "scroller", tabindex: 0, role: "region", "aria-label": "Spent" }, grid.element))];
  }

  ladder(levels) {
    const grid = table(LEVELS, { caption: "Levels at which a message is sent", labels: "levels" });
    for (const { level, alert } of levels) {
      const name = level === "forecast" ? "Forecast beyond the limit" : `${level} % used`;
      const state = alert ? h("a", { href: alertHash(alert.alert_id) }, `${alert.status === "firing" ? "▲ fires now" : "✓ fired, over"}, ${alert.severity}`) : "– not reached";
      grid.body.append(row(LEVELS, [name, state, alert ? near(alert.started_ms, this.now) : ""]));
    }
    return h("div", { class: "scroller" }, grid.element);
  }

  dearest({ jobs, jobs_left_out: left, spend }) {
    if (!jobs.length) return h("p", {}, "No job has cost anything in the period yet.");
    const all = spend.reduce((sum, [, usd]) => sum + (nano(usd) ?? 0n), 0n);
    const grid = table(JOBS, { caption: "Jobs that cost most in the period", labels: "dearest" });
    for (const each of jobs) {
      const part = all > 0n ? Number(((nano(each.usd) ?? 0n) * 100_000n) / all) / 100_000 : null;
      grid.body.append(row(JOBS, [h("a", { href: jobHash(each.job_id) }, foreign(visible(each.job_id))), foreign(visible(each.owner || "no owner")), each.state, dollars(each.usd), percent(part)]));
    }
    even(grid.element);
    return [h("div", { class: "scroller", tabindex: 0, role: "region", "aria-label": "Dearest jobs" }, grid.element), left ? h("p", { class: "sub" }, `${plural(left, "more job")} cost less.`) : null];
  }

  actions({ actions, actions_left_out: left, budget, may_act: mayAct, acts_need: need }) {
    const parts = [];
    if (actions.length) {
      const grid = table(ACTIONS, { caption: "What was asked for because of the budget, the newest first", labels: "budget-actions" });
      for (const each of actions) {
        grid.body.append(row(ACTIONS, [near(each.time_ms, this.now), `${each.rung}${each.mode === "dry_run" ? " (dry run)" : ""}`, STATES[each.state] ?? each.state, h("a", { href: jobHash(each.job_id) }, foreign(visible(each.job_id))), percent(each.used_ratio), foreign(visible(each.detail))]));
      }
      parts.push(h("div", { class: "scroller", tabindex: 0, role: "region", "aria-label": "Actions" }, grid.element));
      if (left) parts.push(h("p", { class: "sub" }, `${plural(left, "older row")} of actions left out; the table actions has all.`));
    } else parts.push(h("p", {}, "No action was asked for in this period."));
    const { override } = budget;
    if (override) {
      const until = override.until_ms === null ? "for ever" : `until ${near(override.until_ms, this.now)}`;
      parts.push(h("p", {}, "Its actions are suspended by ", foreign(visible(override.by || override.name)), ` ${until}`, override.reason ? [": ", h("q", {}, foreign(visible(override.reason)))] : "", "."));
    }
    parts.push(h("p", { class: "sub" }, "The meter stops nothing itself: it asks a receiver of yours, which can take back what it did (resume a suspended job). Alerts go on under an override."));
    if (!mayAct) parts.push(h("p", { class: "needs" }, `Here nothing can be overridden: ${need}.`));
    else if (budget.budget) {
      parts.push(h("button", { type: "button", class: "act", onclick: () => this.override(budget) }, "Suspend its actions…"));
      if (override?.name === this.overrideName(budget)) parts.push(h("button", { type: "button", class: "act", onclick: () => this.endOverride(budget) }, "End the override"));
      parts.push(h("button", { type: "button", class: "act", onclick: () => raise(this.detail, this.acts).then((done) => done && this.read()) }, "Raise its limit…"));
      parts.push(h("p", { class: "sub" }, "Raising it keeps its period, actions and contact. To lower or change it publish a record with the same name, which replaces the whole budget."));
    } else parts.push(h("p", { class: "sub" }, "A job’s own budget is a field of the job’s events: a later event that names another one raises it."));
    return parts;
  }

  overrideName(budget) {
    return `page/${budget.budget}`;
  }

  async override(budget) {
    const given = await ask(`Suspend the actions of ${nameOf(budget)}?`, [
      { name: "hours", label: "For the next hours", value: String(OVERRIDE_HOURS), type: "number", min: 1, max: 744, required: true },
      { name: "reason", label: "Why", required: true },
    ], "Suspend them");
    if (!given) return;
    const record = { kind: "override", name: this.overrideName(budget), budget: budget.budget, until_ms: this.acts.after(Number(given.hours)), reason: given.reason };
    if (await this.acts.write(record, "Actions suspended")) this.read();
  }

  async endOverride(budget) {
    const until_ms = Math.floor(Math.min(this.meter.timeMs, this.meter.asOfMs ?? Infinity));
    const record = { kind: "override", name: this.overrideName(budget), budget: budget.budget, until_ms, reason: budget.override?.reason || "ended" };
    if (await this.acts.write(record, "Override ended")) this.read();
  }
}
